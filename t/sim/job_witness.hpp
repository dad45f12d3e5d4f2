// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "exits/job_end.hpp"
#include "job_plan.hpp"

namespace nacre::sim {

// What really happens in a job, for the checks: the shells tell it, and never ask.
class Witness {
 public:
  virtual ~Witness() = default;
  // What can be named as the cause of the job's end has happened there. `must`: nothing may keep the job from
  // ending by it, unless the shell is lost.
  virtual void failed(Id shell, const exits::Cause& cause, bool must) = 0;
  virtual void decided(Id shell, const exits::Cause& cause) = 0;  // which failure was the first
  virtual void named(Id shell, const exits::Cause& cause) = 0;    // as the cause, in the leader's log
  virtual void recorded(Id rank, const std::string& record) = 0;
  virtual void entered(Id shell, Phase phase) = 0;
  virtual void ended(Id shell) = 0;  // its process, by itself or not
};

}  // namespace nacre::sim
