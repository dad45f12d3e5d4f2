// SPDX-License-Identifier: Apache-2.0
//
// The way up: who feeds this node, and how it finds another (rules 5, 6 and 10 of doc/protocol.md). The parent of the view
// is dialled until it answers; meanwhile whoever answers first of those above it feeds.
#pragma once

#include <optional>
#include <vector>

#include "overlay/effect.hpp"

namespace nacre::overlay {

class Uplink {
 public:
  Uplink(const Options& options, Outbox& out) : options_(options), out_(out) {}

  // The parent, its parent … the leader. None for the leader. Dials a new parent, and keeps who feeds until it answers.
  void route(std::vector<Id> above);
  // Who feeds; none while nobody has answered.
  [[nodiscard]] std::optional<Id> current() const { return current_; }
  [[nodiscard]] bool at_parent() const { return current_ && !above_.empty() && *current_ == above_.front(); }
  // Parents that were lost or did not answer.
  [[nodiscard]] const Idset& lost() const { return lost_; }

  // Whether this was dialled, and HELLO is to be said. `patient`: no bound for the answer.
  bool linked(Id peer, bool patient);
  void unlinked(Id peer);
  // Whether the peer feeds from now on; else its link is given up.
  bool welcomed(Id peer);
  // Of somebody who cannot be of use.
  void drop(Id peer);
  // No beat has come in time; or it has.
  void starve(bool starving);
  // A node that was stopped itself for so long gives the others the same time again.
  void excuse(Time gap);
  void tick();
  // When tick() is wanted.
  [[nodiscard]] Time due() const;
  void stop();  // no more dialling; the current link stays

 private:
  struct Attempt {
    Id peer;
    Time deadline;
  };

  void pursue();
  void dial(Id peer);
  void failed(Id peer);
  void hang_up(Id peer, bool say);
  [[nodiscard]] bool trying(Id peer) const;
  [[nodiscard]] bool wants_parent() const;

  const Options& options_;
  Outbox& out_;
  std::vector<Id> above_;
  std::optional<Id> current_;
  std::vector<Attempt> attempts_;
  Idset lost_;
  bool starving_ = false;
  bool others_ = false;   // the parent was tried in vain: ask those above it
  std::size_t next_ = 1;  // of above_, the one to ask
  Time parent_at_{};      // not before
  Time pause_{};          // until the parent is dialled again
  Time other_at_{};
};

}  // namespace nacre::overlay
