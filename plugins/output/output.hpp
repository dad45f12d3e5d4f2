// SPDX-License-Identifier: Apache-2.0
//
// Output that is not taken any more. The leader sends all shells one byte for the stream, see doc/protocol.md,
// "Channels".
#pragma once

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "io/batch.hpp"
#include "value/wait_status.hpp"

namespace nacre::plugins {

[[nodiscard]] inline std::string closing(io::Stream stream) { return {static_cast<char>(stream)}; }

// None: this is no such record.
[[nodiscard]] inline std::optional<io::Stream> closed_stream(std::string_view record) {
  for (io::Stream stream : io::kStreams) {
    if (record == closing(stream)) return stream;
  }
  return std::nullopt;
}

// SIGHUP if the shell's own output is a terminal that has hung up: an error of it may be seen before the signal
// comes. (ioctl_tty(2) on such a terminal fails with EIO, and not with ENOTTY.)
[[nodiscard]] inline std::optional<value::WaitStatus> hangup_behind(const Error& error) {
  auto has_hung_up = [](int fd) { return ::isatty(fd) == 0 && errno == EIO; };
  bool hung_up = error.code == EIO && (has_hung_up(STDOUT_FILENO) || has_hung_up(STDERR_FILENO));
  return hung_up ? std::optional(value::WaitStatus::killed(SIGHUP)) : std::nullopt;
}

}  // namespace nacre::plugins
