// SPDX-License-Identifier: Apache-2.0
//
// What whoever started this process may have left amiss, put right. Both programs call these first, before anything opens a file
// or starts a thread.
#pragma once

#include "base/result.hpp"

namespace nacre {

// Puts /dev/null in the place of each of standard input, output and error that is closed, so that no file of this process gets
// its number. What is written to standard output then fails with EBADF, so that it is not lost without a message; there is
// nobody to read what goes to standard error.
Result<void> open_closed_streams();

// Whether it is open for writing: standard output that was closed is not.
[[nodiscard]] bool is_writable(int fd);

// No signal is blocked, and those that end a process, or report to it, have their default actions. SIGINT, SIGQUIT and SIGHUP
// stay ignored where they are: nohup(1), and a shell that starts what is in the background, mean that. So do SIGTSTP, SIGTTIN
// and SIGTTOU.
void reset_signals();

// Whether this process ignores the signal.
[[nodiscard]] bool ignores_signal(int signum);

}  // namespace nacre
