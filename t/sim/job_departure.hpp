// SPDX-License-Identifier: Apache-2.0
//
// How a shell leaves once its job is over, as join/leaving.cpp: when its process may end, and with which code.
#pragma once

#include <optional>

#include "world.hpp"

namespace nacre::sim {

class JobShell;

class JobDeparture {
 public:
  explicit JobDeparture(JobShell& shell) : shell_(shell) {}

  void learn(int code);  // the job's, by the log
  void finished();       // its node has nothing more to do
  void begin();
  void go_if_due();
  [[nodiscard]] std::optional<int> learnt() const { return code_; }

 private:
  JobShell& shell_;
  bool begun_ = false, finished_ = false;
  bool late_ = false;  // it waits no more
  bool gives_up_absent_ = false;
  std::optional<int> code_;
};

}  // namespace nacre::sim
