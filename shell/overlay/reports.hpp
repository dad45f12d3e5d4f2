// SPDX-License-Identifier: Apache-2.0
//
// What travels up beside acknowledgements: who has gone, which tasks have started and how they ended, and requests. All
// that a member has heard is kept, so that it can be offered again to another parent; to hear it twice does no harm.
#pragma once

#include <vector>

#include "overlay/last_requests.hpp"
#include "overlay/message.hpp"

namespace nacre::overlay {

class Reports {
 public:
  void add_gone(const Idset& ids) { gone_ = gone_ | ids; }
  void add_started(const Idset& tasks) { started_ = started_ | tasks; }
  // An exit implies a start.
  void add_exited(const Record& record);
  // Those are of no interest any more.
  void forget_gone(const Idset& ids);

  [[nodiscard]] const Idset& gone() const { return gone_; }

  // What was not taken since the last offer_again(), as much as fits one message; false: nothing.
  bool take_news(Up& up);
  void offer_again();

 private:
  struct Outcome {
    Bytes what;
    Idset tasks;
    Idset told;
  };
  Idset gone_;
  Idset gone_told_;
  Idset started_;
  Idset started_told_;
  std::vector<Outcome> outcomes_;  // by what
};

// Requests that the log has not answered, in an order in which each origin's stay in theirs.
class Requests {
 public:
  // Whether it is new here.
  bool add(const Request& request);
  void answered(RequestId id);

  [[nodiscard]] const std::vector<Request>& pending() const { return pending_; }
  [[nodiscard]] const std::vector<RequestId>& all_answered() const { return answered_.all(); }

 private:
  std::vector<Request> pending_;
  LastRequests answered_;
};

}  // namespace nacre::overlay
