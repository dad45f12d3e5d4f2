// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "job_plan.hpp"
#include "value/wait_status.hpp"

namespace nacre::sim {

// A task of one shell; once it starts again, its next try.
struct JobTask {
  Id rank = 0;
  TaskPlan plan;
  std::uint32_t attempt = 1;
  bool started = false;  // or it could not be
  bool running = false, ended = false;
  bool reacts = false;     // to a signal
  bool signalled = false;  // by somebody outside
  Time since{};
  value::WaitStatus status = value::WaitStatus::exited(0);
};

}  // namespace nacre::sim
