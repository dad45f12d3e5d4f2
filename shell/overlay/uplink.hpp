// SPDX-License-Identifier: Apache-2.0
//
// The way up: which node feeds this one, and how it finds another (rules 5, 6 and 10 of doc/protocol.md). The
// view's parent is dialled until it answers; meanwhile the first of those above it that answers feeds.
#pragma once

#include <optional>
#include <vector>

#include "overlay/effect.hpp"

namespace nacre::overlay {

class Uplink {
 public:
  Uplink(const OverlayOptions& options, Outbox& out) : options_(options), out_(out) {}

  // `above`: the parent, its parent … the leader; empty for the leader. Dials a new parent, and keeps the feeder
  // until it answers.
  void route(std::vector<Id> above);
  // The feeder; none while no node has answered.
  [[nodiscard]] std::optional<Id> current() const { return current_; }
  [[nodiscard]] bool at_parent() const { return current_ && !above_.empty() && *current_ == above_.front(); }
  // Parents that were lost or did not answer.
  [[nodiscard]] const Idset& lost() const { return lost_; }

  // True if this node dialled the peer, so that HELLO is due. `patient`: without a bound for the answer.
  bool linked(Id peer, bool patient);
  void unlinked(Id peer);
  // True if the peer feeds from now on; else its link is given up.
  bool welcomed(Id peer);
  // Gives up a peer that is of no use.
  void drop(Id peer);
  // Whether the beat is overdue.
  void starve(bool starving);
  // This node itself was stopped for so long: the others get the same time again.
  void excuse(Time gap);
  void tick();
  // When to call tick().
  [[nodiscard]] Time due() const;
  void stop();  // dials no more; the current link stays

 private:
  struct Attempt {
    Id peer;
    Time deadline;
  };

  void pursue();
  void dial(Id peer);
  void failed(Id peer);
  void hang_up(Id peer, bool with_bye);
  [[nodiscard]] bool trying(Id peer) const;
  [[nodiscard]] bool wants_parent() const;

  const OverlayOptions& options_;
  Outbox& out_;
  std::vector<Id> above_;
  std::optional<Id> current_;
  std::vector<Attempt> attempts_;
  Idset lost_;
  bool starving_ = false;
  bool others_ = false;   // the parent was tried in vain: dial those above it
  std::size_t next_ = 1;  // index into above_ of the node to dial next
  Time parent_at_{};      // the parent is not dialled before
  Time pause_{};          // how long the parent is not dialled after a failure
  Time other_at_{};
};

}  // namespace nacre::overlay
