// SPDX-License-Identifier: Apache-2.0
//
// What members know of how their leader is chosen: which views need a majority, and their votes while there is no
// leader. doc/protocol.md, "Who leads", has the rules.
#pragma once

#include "overlay/effect.hpp"
#include "overlay/message.hpp"

namespace nacre::overlay {

// The views of which more than half is needed: the last one that all of its members are known to have, and all
// later ones.
class Quorums {
 public:
  void add(Seq view, Idset members) { views_.push_back({view, std::move(members)}); }
  void start_from(const std::vector<Quorum>& views) { views_.assign(views.begin(), views.end()); }
  [[nodiscard]] std::vector<Quorum> all() const { return {views_.begin(), views_.end()}; }
  void complete(Seq upto);  // all members have the entries up to this one

  // Whether members that are `present` may choose a leader. `over`: members that have left as planned.
  // `others`: voices that are no member's.
  [[nodiscard]] bool may_choose(const Idset& present, const Idset& over, std::size_t others = 0) const;
  // Whether a leader that reaches these members, itself included, still leads: half is enough, as the others are no
  // more than half. So those who choose another leader count a lost leader as a member, even if its end is known:
  // it may have gone on with half, and without them.
  [[nodiscard]] bool may_lead(const Idset& present, const Idset& over) const;
  // Whether these are just enough for that.
  [[nodiscard]] bool is_half(const Idset& present, const Idset& over) const;
  // The first view that not all of its members may have; kNoEnd: there is none.
  [[nodiscard]] Seq first_open() const { return views_.size() < 2 ? kNoEnd : views_[1].view; }

 private:
  friend struct NodeState;
  std::deque<Quorum> views_;
};

// The votes of this member and of those below it.
struct Election {
  Time since = Outbox::kNever;     // when the leader was missed; kNever: there is one
  bool is_sure = false;            // the leader's process has ended
  std::optional<Claim> claim;      // the last one, of the feeder or its own
  Idset votes;                     // for this claim
  Idset unsent;                    // of these votes, those that the feeder has not got
  Time claim_at = Outbox::kNever;  // its own next claim
  Time heard_at{};                 // when the feeder has passed on a claim, or was found
  std::uint64_t latest = 0;        // the latest ballot that it has heard of
  std::optional<Id> follows = {};  // whom it has promised to follow in the latest term

  [[nodiscard]] bool is_open() const { return since != Outbox::kNever; }
  void close();
};

// What the owner of a leader is told in the order of the log, once all members have the entry.
class Withheld {
 public:
  // `until`: the entry that all members have to have first.
  void add(Seq until, Effect effect) { effects_.emplace_back(until, std::move(effect)); }
  void release(Seq complete, Outbox& out);
  [[nodiscard]] bool empty() const { return effects_.empty(); }

 private:
  friend struct NodeState;
  std::deque<std::pair<Seq, Effect>> effects_;
};

}  // namespace nacre::overlay
