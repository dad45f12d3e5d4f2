// SPDX-License-Identifier: Apache-2.0
//
// Makes the launcher's standard input this shell's: what its stream brings comes out of a pipe that replaces
// /dev/null.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "io/fd_sink.hpp"
#include "launch/stream.hpp"

namespace nacre::join {

class LauncherInput {
 public:
  static Result<std::unique_ptr<LauncherInput>> create(event::Loop& loop);
  LauncherInput(const LauncherInput&) = delete;
  LauncherInput& operator=(const LauncherInput&) = delete;

  // The stream that calls take() and end(); it has to wait while the pipe is full.
  void hold_back(launch::LaunchStream& stream) { stream_ = &stream; }
  void take(std::string_view bytes);
  void end();
  // The stream is not used any more: what has come of the input is its end.
  void let_go();

 private:
  LauncherInput() = default;
  void go_on();

  launch::LaunchStream* stream_ = nullptr;
  UniqueFd pipe_;
  std::unique_ptr<io::FdSink> sink_;
  std::optional<event::Timer> end_timer_;
  bool ended_ = false;
};

}  // namespace nacre::join
