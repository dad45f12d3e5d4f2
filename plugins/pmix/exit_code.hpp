// SPDX-License-Identifier: Apache-2.0
//
// Exit codes. The builtin plugins have the same rules; this plugin has only the C API.
#pragma once

#include <sys/wait.h>

namespace nacre::pmix {

// Of a process that has ended: 128 + the signal if one has ended it.
[[nodiscard]] inline int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Of a job that a program has aborted with a number of its own: a failure never becomes 0.
// 0 counts as 1; 1 to 255 as itself; anything else as its low 8 bits, or 255 if these are 0.
[[nodiscard]] constexpr int failure_code(int given) {
  if (given == 0) return 1;
  int low = given & 0xff;
  return low != 0 ? low : 255;
}

}  // namespace nacre::pmix
