// SPDX-License-Identifier: Apache-2.0
//
// Which starts of a shell's tasks are to come beside their first ones, and why.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "job_task.hpp"
#include "job_witness.hpp"

namespace nacre::sim {

class JobShell;

class JobStarts {
 public:
  explicit JobStarts(JobShell& shell) : shell_(shell) {}

  void expect(Id rank, std::uint32_t attempt, Witness::Why why, const std::string& restart);
  void renew(JobTask& task, std::uint32_t attempt, Witness::Why why, const std::string& restart);
  void started(JobTask& task);

 private:
  struct Reason {
    Witness::Why why = Witness::Why::first;
    std::string restart;
  };

  JobShell& shell_;
  std::map<std::pair<Id, std::uint32_t>, Reason> reasons_;  // by rank and start
};

}  // namespace nacre::sim
