// SPDX-License-Identifier: Apache-2.0
//
// The launcher's standard input as this shell's: what its stream brings comes out of a pipe in the place of /dev/null.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/unique_fd.hpp"
#include "boot/launch_stream.hpp"
#include "event/loop.hpp"
#include "io/fd_sink.hpp"

namespace nacre {

class LaunchInput {
 public:
  static Result<std::unique_ptr<LaunchInput>> create(event::Loop& loop);
  LaunchInput(const LaunchInput&) = delete;
  LaunchInput& operator=(const LaunchInput&) = delete;

  // The stream that take() and end() are called from, which is to wait while the pipe is full.
  void hold_back(boot::LaunchStream& stream) { stream_ = &stream; }
  void take(std::string_view bytes);
  void end();

 private:
  LaunchInput() = default;
  void go_on();

  boot::LaunchStream* stream_ = nullptr;
  UniqueFd pipe_;
  std::unique_ptr<io::FdSink> sink_;
  std::optional<event::Timer> end_timer_;
  bool ended_ = false;
};

}  // namespace nacre
