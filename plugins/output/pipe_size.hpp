// SPDX-License-Identifier: Apache-2.0
//
// The capacity of the pipes between the shell and its tasks.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstddef>

namespace nacre::plugins {

inline constexpr std::size_t kUsualPipe = std::size_t{64} << 10;   // bytes that a pipe holds by default
inline constexpr std::size_t kReadSize = std::size_t{256} << 10;   // bytes that are read from one at once
inline constexpr std::size_t kReadToSend = std::size_t{60} << 10;  // likewise, where they go to the leader's shell

// Makes a pipe, one of `pipes` of its kind, hold more, so that its writer waits later. The system limits all pipes
// of a user together (pipe(7)), so the more there are the less each gets; if the system refuses the pipe stays as
// it is. Returns how many bytes it holds then.
inline std::size_t widen_pipe(int fd, std::size_t pipes) {
  constexpr std::size_t kAll = std::size_t{16} << 20;     // bytes
  constexpr std::size_t kLargest = std::size_t{1} << 20;  // bytes
  std::size_t size = std::min(kLargest, kAll / std::max<std::size_t>(pipes, 1));
  const int got = size > kUsualPipe ? ::fcntl(fd, F_SETPIPE_SZ, static_cast<int>(size)) : -1;
  return got < 0 ? kUsualPipe : static_cast<std::size_t>(got);
}

}  // namespace nacre::plugins
