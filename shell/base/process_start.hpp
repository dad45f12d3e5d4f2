// SPDX-License-Identifier: Apache-2.0
//
// Corrects what this process may have inherited in a bad state. Both programs call these first, before anything
// opens a file or starts a thread.
#pragma once

#include "base/result.hpp"

namespace nacre {

// Replaces each of standard input, output and error that is closed by /dev/null, so that no file of this process
// gets its number. Writing to a standard output that was closed fails with EBADF, so that output is not lost
// without a message; standard error just loses what is written.
Result<void> open_closed_streams();

// Whether it is open for writing; false for a standard output that was closed.
[[nodiscard]] bool is_writable(int fd);

// Unblocks all signals, and sets those that end a process, or report to it, to their default actions. SIGINT,
// SIGQUIT and SIGHUP stay ignored if they are: nohup(1), and shells that start background jobs, mean that. So do
// SIGTSTP, SIGTTIN and SIGTTOU.
void reset_signals();

// Whether this process ignores the signal.
[[nodiscard]] bool ignores_signal(int signum);

}  // namespace nacre
