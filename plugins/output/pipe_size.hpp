// SPDX-License-Identifier: Apache-2.0
//
// The capacity of the pipes between the shell and its tasks.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstddef>

namespace nacre::plugins {

// Makes a pipe, one of `pipes` of its kind, hold more, so that its writer waits later. The system limits all pipes
// of a user together (pipe(7)), so the more there are the less each gets; if the system refuses the pipe stays as
// it is.
inline void widen_pipe(int fd, std::size_t pipes) {
  constexpr std::size_t kAll = std::size_t{16} << 20;     // bytes
  constexpr std::size_t kLargest = std::size_t{1} << 20;  // bytes
  constexpr std::size_t kUsual = std::size_t{64} << 10;   // bytes
  std::size_t size = std::min(kLargest, kAll / std::max<std::size_t>(pipes, 1));
  if (size > kUsual) ::fcntl(fd, F_SETPIPE_SZ, static_cast<int>(size));
}

}  // namespace nacre::plugins
