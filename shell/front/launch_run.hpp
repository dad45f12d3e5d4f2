// SPDX-License-Identifier: Apache-2.0
//
// What `nacre launch` does once it knows what: starts shell 0, which starts the others, or srun, which starts all; passes on
// signals and standard input; waits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "front/launch_reports.hpp"
#include "launch/record.hpp"
#include "task/command.hpp"

namespace nacre::front {

struct LaunchPlan {
  launch::LaunchRecord record;                   // shell 0's; for srun without rank, hosts and agent
  std::string leader;                            // shell 0's host; none for srun
  std::optional<std::vector<std::string>> srun;  // its arguments, if it starts the shells
  std::vector<LaunchReport> reports;             // of the leader
  int input = 0;                                 // a descriptor that tasks get the bytes of; < 0: none
  bool tolerates_loss = false;                   // of shells, as far as is known here
  bool verbose = false;
};

// The exit code of shell 0 or of srun, 128 + N if a signal N ended it; 1 where the agent failed, which is said on standard
// error. An error: it could not be started.
Result<int> launch(LaunchPlan plan);

// The command line that starts it.
Result<task::Command> launch_command(const LaunchPlan& plan);

}  // namespace nacre::front
