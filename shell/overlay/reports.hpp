// SPDX-License-Identifier: Apache-2.0
//
// What goes up beside acknowledgements: which members have gone, which tasks have started, how they ended, and
// requests. A member keeps all of it, so that it can offer it to another parent; receiving it twice does no harm.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <vector>

#include "overlay/entry.hpp"
#include "overlay/message.hpp"

namespace nacre::overlay {

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
  // These are of no interest any more.
  void forget_gone(const Idset& ids);

  [[nodiscard]] const Idset& gone() const { return gone_; }

  // Takes what was not taken since the last offer_again(), as much as fits into one message; false: there is
  // nothing.
  bool take_unsent(Up& up);
  void offer_again();

 private:
  // What has not been sent is kept apart, so that each more of very many tasks costs by its own size.
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
  std::map<Id, std::deque<Request>> pending_;  // by number
  LastRequests answered_;
};

}  // namespace nacre::overlay
