// SPDX-License-Identifier: Apache-2.0
//
// The way up: which node feeds this one, and how it finds another (rules 5, 6 and 10 of doc/protocol.md). The
// view's parent is dialled until it answers; meanwhile the first of those above it that answers feeds.
#pragma once

#include "overlay/effect.hpp"
#include "overlay/entry.hpp"
#include "overlay/message.hpp"

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
  // No node above has answered since route().
  [[nodiscard]] bool tried_all() const { return above_.empty() || (others_ && tried_all_); }
  // Parents that were lost or did not answer.
  [[nodiscard]] const Idset& lost() const { return lost_; }

  // True if this node dialled the peer, so that HELLO is due. `patient`: without a bound for the answer.
  bool linked(Id peer, bool patient);
  void unlinked(Id peer);
  // True if the peer feeds from now on; else its link is given up.
  bool welcomed(Id peer);
  // Gives up a peer that is of no use; `with_bye`: the peer is told that this was on purpose.
  void drop(Id peer, bool with_bye = false);
  // Gives up the feeder, tells it that this was on purpose, and dials nodes other than the parent as well.
  void leave(Id feeder);
  // Whether the beat is overdue.
  void starve(bool starving);
  // This node itself was stopped for `gap`: the others get as much more time.
  void excuse(Time gap);
  void tick();
  // When to call tick().
  [[nodiscard]] Time due() const;
  void stop();  // dials no more; the current link stays

 private:
  friend struct NodeState;
  struct Attempt {
    Id peer;
    Time deadline;
    bool is_linked = false;  // HELLO was sent
  };

  void pursue();
  void dial(Id peer);
  void failed(Id peer);
  void hang_up(Id peer, bool with_bye);
  void give_up(const Attempt& attempt) { hang_up(attempt.peer, attempt.is_linked); }
  [[nodiscard]] bool trying(Id peer) const;
  [[nodiscard]] bool wants_parent() const;
  [[nodiscard]] bool has_feeder_above() const;

  const OverlayOptions& options_;
  Outbox& out_;
  std::vector<Id> above_;
  std::optional<Id> current_;
  std::vector<Attempt> attempts_;
  Idset lost_;
  bool starving_ = false;
  bool others_ = false;  // the parent was tried in vain: dial those above it
  bool tried_all_ = false;
  std::size_t next_ = 1;  // index into above_ of the node to dial next
  Time parent_at_{};      // the parent is not dialled before this time
  Time pause_{};          // how long the parent is not dialled after a failure
  Time other_at_{};
};

// What goes up beside acknowledgements: which members have gone, which tasks have started, how they ended, and
// requests. A member keeps all of it, so that it can offer it to another parent; receiving it twice does no harm.

// For each origin, the last of its requests that the leader has taken, or that the log has answered.
class LastRequests {
 public:
  // False if this request is not later than its origin's last; else it becomes the last.
  bool advance(RequestId id) {
    if (id.number <= of(id.origin)) return false;
    auto at = last_.begin() + place(id.origin);
    if (at == last_.end() || at->origin != id.origin) at = last_.insert(at, id);
    at->number = id.number;
    return true;
  }
  // 0: none.
  [[nodiscard]] std::uint64_t of(Id origin) const {
    auto at = last_.begin() + place(origin);
    return at == last_.end() || at->origin != origin ? 0 : at->number;
  }
  [[nodiscard]] const std::vector<RequestId>& all() const { return last_; }  // by origin

 private:
  friend struct NodeState;
  [[nodiscard]] std::ptrdiff_t place(Id origin) const {
    auto at =
        std::lower_bound(last_.begin(), last_.end(), origin, [](const RequestId& a, Id b) { return a.origin < b; });
    return at - last_.begin();
  }

  std::vector<RequestId> last_;
};

class Reports {
 public:
  void add_gone(const Idset& ids) { gone_ = gone_ | ids; }
  void add_started(const Idset& tasks);
  // An exit implies a start.
  void add_exited(const TaskReport& record);
  // The members `ids` are of no interest any more.
  void forget_gone(const Idset& ids);

  [[nodiscard]] const Idset& gone() const { return gone_; }

  // Takes as much as fits into one message of what was not taken since the last offer_again(); false: there is
  // nothing.
  bool take_unsent(Up& up);
  void offer_again();

 private:
  friend struct NodeState;
  // What has not been sent is kept apart, so that a new outcome costs by its own size, however many tasks there
  // are.
  struct Outcome {
    Bytes what;
    Idset tasks;
    Idset unsent;
  };
  Idset gone_;
  Idset gone_taken_;
  Idset started_;
  Idset started_unsent_;
  std::vector<Outcome> outcomes_;  // by `what`
};

// Requests that the log has not answered: the log answers those of one origin in their order.
class Requests {
 public:
  // False: it was here before, or is answered.
  bool add(const Request& request);
  void answered(RequestId id);

  [[nodiscard]] std::vector<Request> pending() const;  // by origin, each one's in their order
  [[nodiscard]] const std::vector<RequestId>& all_answered() const { return answered_.all(); }

 private:
  friend struct NodeState;                     // t/sim/node_state.hpp
  std::map<Id, std::deque<Request>> pending_;  // by number
  LastRequests answered_;
};

}  // namespace nacre::overlay
