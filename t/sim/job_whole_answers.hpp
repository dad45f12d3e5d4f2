// SPDX-License-Identifier: Apache-2.0
//
// What the leader answers to those who want all tasks of the job to start again, as its half of
// core/shell_restart.cpp.
#pragma once

#include <string>
#include <vector>

#include "elastic/recovery.hpp"

namespace nacre::sim {

class JobElastic;
class JobShell;

class JobWholeAnswers {
 public:
  using Message = elastic::RestartMessage;

  JobWholeAnswers(JobShell& shell, JobElastic& elastic) : shell_(shell), elastic_(elastic) {}

  void all_started();
  void hold() { held_ = true; }  // while it is open what becomes of a lost shell's tasks, nothing is answered
  void go_on();
  void answer(const Message& message);
  void answer_order();
  void order_came_back() { order_is_answered_ = false; }  // the log has the answer to it
  [[nodiscard]] std::string why_not_whole() const;

 private:
  JobShell& shell_;
  JobElastic& elastic_;
  std::vector<Message> unanswered_;
  bool all_started_ = false, held_ = false;
  bool order_waits_ = false, order_is_answered_ = false;
};

}  // namespace nacre::sim
