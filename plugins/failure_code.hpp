// SPDX-License-Identifier: Apache-2.0
//
// The exit code that a failure has when a program gives a number for it, as MPI_Abort does: a failure never becomes 0.
#pragma once

#include <cstdint>

namespace nacre::plugins {

// 0 counts as 1; 1 to 255 as itself; anything else as its low 8 bits, or 255 if these are 0.
[[nodiscard]] constexpr int failure_code(std::int64_t given) {
  if (given == 0) return 1;
  int low = static_cast<int>(given & 0xff);
  return low != 0 ? low : 255;
}

}  // namespace nacre::plugins
