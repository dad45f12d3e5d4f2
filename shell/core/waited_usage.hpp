// SPDX-License-Identifier: Apache-2.0
//
// What wait4(2) has told of tasks that have ended, also where nothing is measured: the CPU time of all, and the
// largest one's memory. The shells give it to the barriers that end the job: each gives two numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/json_fwd.hpp"
#include "exits/outcomes.hpp"
#include "job/job.hpp"
#include "task/task.hpp"
#include "value/idset.hpp"

namespace nacre::core {

struct WaitedUsage {
  std::int64_t cpu = 0;      // microseconds, user and system
  std::int64_t largest = 0;  // twice the KiB of the largest maximum RSS, and 1 if that is exact; 0: of no task

  // Of those that have ended. A maximum RSS is exact if it is more than the shell itself has had, whose copy a task
  // is at first; else it is at most so much.
  static WaitedUsage of(std::span<const std::unique_ptr<task::Task>> tasks);

  // {"tasks": of the job, "ended": those that this is of, "cpu": seconds, "maxrss": bytes, "maxrss_is_bound": true,
  // if it is not exact}. `outcomes`: of all tasks. `gone`: shells that have given nothing; "missing" has their
  // tasks, if there are any.
  [[nodiscard]] Json json(const job::Job& job, const exits::Outcomes& outcomes, const value::Idset& gone) const;
};

}  // namespace nacre::core
