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
#include "job/options.hpp"
#include "launch/record.hpp"
#include "task/command.hpp"

namespace nacre::front {

struct LaunchPlan {
  launch::LaunchRecord record;                   // shell 0's; for srun without rank, hosts and agent
  std::string leader;                            // shell 0's host; none for srun
  std::optional<std::vector<std::string>> srun;  // its arguments, if it starts the shells
  std::vector<LaunchReport> reports;             // those that the leader sends
  int input = 0;  // the descriptor that the job's input is read from; < 0: see LaunchFeed
  bool verbose = false;
  bool quiet = false;     // nothing but warnings and errors is printed
  bool outlived = false;  // the job goes on if this process goes: on-launcher-lost=go-on
};

// The job detaches as soon as it runs, see nacre-run(1); `options` are its own. An error: it cannot.
Result<void> detach_at_start(const job::Options& options, LaunchPlan& plan);
// The job's own option on-launcher-lost, in the plan's `outlived`. An error: there is no launcher that counts.
Result<void> read_on_launcher_lost(const job::Options& options, LaunchPlan& plan);

// On a terminal, Ctrl-C and then Ctrl-Z leave the job, which goes on; but not one whose task has the terminal, or
// that cannot be reached then. To be called before the two above.
void let_leave(const job::Options& options, LaunchPlan& plan);

// Returns the exit code of shell 0 or of srun, or 128 + N if a signal N ended it, or one of srun's shells before
// all had joined; 1 if the agent failed, or a shell could not join, which is reported on standard error. An error:
// it could not be started.
Result<int> launch(LaunchPlan plan);

// The command line that starts shell 0 or srun.
Result<task::Command> launch_command(const LaunchPlan& plan);

}  // namespace nacre::front
