// SPDX-License-Identifier: Apache-2.0
//
// The MPIR Process Acquisition Interface of the MPI Forum, 1.1: how debuggers find the processes of a job in the
// process that a user has started. They look for symbols of these names, set MPIR_being_debugged, and wait in
// MPIR_Breakpoint until MPIR_proctable has the tasks, by rank.
//
// This process is the starter. The tasks stand still before main() (stop-tasks-in-exec), and go on once the
// debugger lets this process go on, whether it has attached to them or not.
#pragma once

#include "control/client.hpp"
#include "value/jobid.hpp"

namespace nacre::front {

struct MpirProcess {
  std::string host;
  std::string executable;  // "" and no pid: the task does not run
  int pid = 0;
};

[[nodiscard]] bool debugger_asks();  // it has set MPIR_being_debugged

// Asks for all tasks, by rank. `tasks`: how many there are. ETIMEDOUT: some shells have not answered; the error
// names them.
Result<std::vector<MpirProcess>> mpir_processes(control::Client& client, std::uint64_t tasks);
// The same for a job that this user has begun on this host, or whose entry can be read here. EAGAIN: not all tasks
// run.
Result<std::vector<MpirProcess>> mpir_processes(const value::JobId& job);

// Fills the table, and stops for a debugger until it goes on.
void show_to_debugger(std::vector<MpirProcess> processes);
// The job has failed: MPIR_debug_abort_string says how.
void show_end_to_debugger(std::string how);

}  // namespace nacre::front
