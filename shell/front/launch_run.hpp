// SPDX-License-Identifier: Apache-2.0
//
// Carries out a plan of `nacre launch` or `nacre run`: starts shell 0, which starts the others, or srun, which
// starts all; passes on signals and standard input; waits for the end.
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
  std::vector<LaunchReport> reports;             // those that the leader sends
  int input = 0;                                 // the descriptor that the job's input is read from; < 0: none
  bool tolerates_loss = false;                   // the job tolerates lost shells, as far as its options show
  bool verbose = false;
  bool quiet = false;  // nothing but warnings and errors is printed
};

// Returns the exit code of shell 0 or of srun, or 128 + N if a signal N ended it; 1 if the agent failed, which is
// reported on standard error. An error: it could not be started.
Result<int> launch(LaunchPlan plan);

// The command line that starts shell 0 or srun.
Result<task::Command> launch_command(const LaunchPlan& plan);

}  // namespace nacre::front
