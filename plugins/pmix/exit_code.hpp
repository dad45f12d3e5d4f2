// SPDX-License-Identifier: Apache-2.0
//
// The exit code of a job that a program has aborted with a number of its own: a failure never becomes 0. The
// builtin plugins have the same rule; this plugin has only the C API.
#pragma once

namespace nacre::pmix {

// 0 counts as 1; 1 to 255 as itself; anything else as its low 8 bits, or 255 if these are 0.
[[nodiscard]] constexpr int failure_code(int given) {
  if (given == 0) return 1;
  int low = given & 0xff;
  return low != 0 ? low : 255;
}

}  // namespace nacre::pmix
