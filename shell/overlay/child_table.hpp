// SPDX-License-Identifier: Apache-2.0
//
// The links that other members have dialled, which entries each was sent, and the children that the view gives this
// node.
#pragma once

#include "overlay/effect.hpp"
#include "overlay/options.hpp"
#include "overlay/tree.hpp"

namespace nacre::overlay {

// What explains a silence: when another member was last heard, and how late this node itself was then.

// The last times at which something came from one member.
class LastHeard {
 public:
  static constexpr std::size_t kMost = 4;
  static constexpr Time kApart = milliseconds(100);  // what comes sooner after one of them is not kept

  void note(Time now);
  [[nodiscard]] bool any() const { return !times_.empty(); }
  [[nodiscard]] Time last() const { return last_; }
  // "nothing has come from it for 5.2 s (before that 1, 1 and 1.3 s apart)"
  [[nodiscard]] std::string text(Time now) const;

 private:
  friend struct NodeState;
  std::deque<Time> times_;  // the latest last
  Time last_{};             // of all
};

// How late this node's ticks were, because the process or its host stood still.
class Lateness {
 public:
  static constexpr std::size_t kMost = 600;
  static constexpr Time kLeast = milliseconds(5);    // smaller values are not kept
  static constexpr Time kApart = milliseconds(100);  // of ticks closer together the largest is kept

  void note(Time now, Time late);
  [[nodiscard]] Time most_since(Time since) const;  // 0: none was

 private:
  std::deque<std::pair<Time, Time>> ticks_;  // when, and how late; the latest last
};

// A link that another member has dialled.
struct DownLink {
  Id peer = 0;
  bool welcomed = false;       // HELLO was received and answered: entries are sent
  bool closed = false;         // nothing more is sent on it
  bool ahead = false;          // it names a view that this node does not have
  bool parted = false;         // BYE was received
  bool has_left = false;       // it has reported itself gone, and counts as gone when the link ends
  bool knocks = false;         // a newcomer that waits for its view
  Seq fed = 0;                 // the last entry that the peer has, or that was sent to it
  std::uint64_t fed_term = 0;  // of that entry
  Time heard{};                // when something came on it last
  std::string address;
};

struct Child {
  Id id = 0;
  bool linked = false;  // has a link that is welcomed
  bool was_linked = false;
  bool reported = false;  // has sent a report in this view
  bool suspected = false;
  bool ended = false;  // once it is suspected: its process or its link has ended, and the link did not come back
  bool finished = false;
  Seq acked = 0;
  Idset suspects;         // members that the child suspects in its subtree
  Idset ended_below;      // of these
  Idset absent;           // once it is suspected and has never come: members below it that may be lost with it
  Time named{};           // when a view made it a child
  bool is_first = false;  // by the job's first view
  Time deadline{};
  LastHeard heard;  // since it was linked first
};

class ChildTable {
 public:
  ChildTable(const OverlayOptions& options, Outbox& out) : options_(options), out_(out) {}

  // Sets the node's children by a new view. A former child keeps its bound. Children of the job's first view have
  // longer to come.
  void set_children(Id self, const Tree& tree, bool is_first = false);
  void drop_children() { children_.clear(); }
  [[nodiscard]] std::vector<Child>& children() { return children_; }
  [[nodiscard]] const std::vector<Child>& children() const { return children_; }
  [[nodiscard]] Child* child(Id id);
  [[nodiscard]] std::vector<DownLink>& down_links() { return down_links_; }
  [[nodiscard]] DownLink* down(Id peer);
  [[nodiscard]] bool any_ends() const;  // a member has left, and its link has not ended

  void linked(Id peer);
  void unlinked(Id peer);
  void received(Id peer);
  // A member runs a handler: it lives, but may be busy only until the time set for that. False: it is no child, and
  // its parent may suspect it because it does not come; the silent bound does not count this.
  bool busy(Id id);
  void bear_busy_until(Time at) { busy_until_ = std::min(busy_until_, at); }
  // From now on a child that has not come has at most this long to come, unless the first view has named it.
  void wait_for_absent(Time bound);
  void shift_silence(milliseconds by);  // moves the bound of each linked child
  void welcome(DownLink& down);
  // Another member has lost its links to these ids, which need not be children.
  void doubted(const Idset& ids);

  // The least entry that all children have acknowledged; kNoEnd without children. With `without_lost`, lost
  // children do not count.
  [[nodiscard]] Seq acked(bool without_lost) const;
  [[nodiscard]] Idset lost() const;  // the children that are suspected and have not finished
  // The children from which nothing comes now, and all below them from which nothing comes here directly.
  [[nodiscard]] Idset away(const Tree& tree) const;
  // The members that this node and the nodes below it suspect.
  [[nodiscard]] Idset suspects(const Tree& tree) const;

  // The suspected members that are not just silent, as many as a message has room for. A member whose link has
  // broken may have another parent by now, as others are lost; that parent only sees that it does not come.
  [[nodiscard]] Idset ended(const Tree& tree) const;

  // This node itself was stopped for `gap`: no child is blamed for that.
  void excuse(Time gap);
  void tick(const Tree& tree);
  // The children that this node has begun to suspect since the last call because they were silent, though linked.
  [[nodiscard]] std::vector<Id> take_silent() { return std::exchange(silent_, {}); }
  [[nodiscard]] Time due() const;

 private:
  friend struct NodeState;
  const OverlayOptions& options_;
  Outbox& out_;
  std::vector<DownLink> down_links_;  // by peer
  std::vector<Child> children_;
  std::vector<Id> silent_;
  Time busy_until_ = Outbox::kNever;
  std::map<Id, Time> busy_elsewhere_;  // members that are no children: until when they are not suspected
  std::map<Id, Time> went_;            // when a link of a member ended; kept for at least a hello bound
  std::map<Id, Time> broken_;  // the same, for links that ended by accident, until the member comes back here
  Time absent_bound_ = Outbox::kNever;
};

}  // namespace nacre::overlay
