// SPDX-License-Identifier: Apache-2.0
//
// Those below: the links that others have dialled, what each has been fed, and the children that the view gives.
#pragma once

#include <optional>
#include <vector>

#include "overlay/effect.hpp"

namespace nacre::overlay {

// A link that another has dialled.
struct DownLink {
  Id peer = 0;
  bool welcomed = false;  // HELLO was said and answered: entries are fed
  bool closed = false;    // nothing more is sent on it
  bool ahead = false;     // it names a view that this node does not have
  bool parted = false;    // BYE was said
  bool knocks = false;    // a newcomer that waits for its view
  Seq fed = 0;            // the last entry that it has, or that was sent
  std::string address;
};

struct Child {
  Id id = 0;
  bool linked = false;  // has a link that is welcomed
  bool was_linked = false;
  bool reported = false;  // in this view
  bool suspected = false;
  bool finished = false;
  Seq acked = 0;
  Idset suspects;  // of its subtree
  Time deadline{};
};

class ChildTable {
 public:
  ChildTable(const Options& options, Outbox& out) : options_(options), out_(out) {}

  // The view's children. Who was one before keeps its bound.
  void set_children(const std::vector<Id>& ids, Time bound);
  [[nodiscard]] std::vector<Child>& children() { return children_; }
  [[nodiscard]] const std::vector<Child>& children() const { return children_; }
  [[nodiscard]] Child* child(Id id);
  [[nodiscard]] std::vector<DownLink>& down_links() { return down_links_; }
  [[nodiscard]] DownLink* down(Id peer);

  void linked(Id peer);
  void unlinked(Id peer);
  void heard(Id peer);
  void shift_silence(milliseconds by);  // the silent bound is longer by that
  void welcome(DownLink& down);
  // Somebody else has lost its links to these too, children or not.
  void doubted(const Idset& ids);

  // The least that all children have acknowledged; kNoEnd without any. With `without_lost`, the lost do not count.
  [[nodiscard]] Seq acked(bool without_lost) const;
  // Whom this node and those below it suspect.
  [[nodiscard]] Idset suspects() const;

  // A node that was stopped itself for so long blames nobody for it.
  void excuse(Time gap);
  void tick();
  [[nodiscard]] Time due() const;

 private:
  const Options& options_;
  Outbox& out_;
  std::vector<DownLink> down_links_;  // by peer
  std::vector<Child> children_;
};

}  // namespace nacre::overlay
