// SPDX-License-Identifier: Apache-2.0
//
// What goes up beside acknowledgements: which members have gone, which tasks have started, how they ended, and
// requests. A member keeps all of it, so that it can offer it to another parent; receiving it twice does no harm.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "overlay/last_requests.hpp"
#include "overlay/message.hpp"

namespace nacre::overlay {

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
