// SPDX-License-Identifier: Apache-2.0
//
// How much the pipes between the shell and its tasks hold.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstddef>

namespace nacre::plugins {

// Lets a pipe, one of `pipes` alike, hold more: its writer runs for longer before it has to wait. All pipes of a
// user count (pipe(7)), so many get less each; without leave of the system it stays as it is.
inline void widen_pipe(int fd, std::size_t pipes) {
  constexpr std::size_t kAll = std::size_t{16} << 20;     // bytes
  constexpr std::size_t kLargest = std::size_t{1} << 20;  // bytes
  constexpr std::size_t kUsual = std::size_t{64} << 10;   // bytes
  std::size_t size = std::min(kLargest, kAll / std::max<std::size_t>(pipes, 1));
  if (size > kUsual) ::fcntl(fd, F_SETPIPE_SZ, static_cast<int>(size));
}

}  // namespace nacre::plugins
