// SPDX-License-Identifier: Apache-2.0
//
// Makes the launcher's standard input this shell's: what its stream brings comes out of a pipe that replaces
// /dev/null. Another owner may take the launcher's place.
#pragma once

#include <functional>
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

  // ---- of the launcher
  // The stream that calls take() and end(); it has to wait while the pipe is full.
  void hold_back(launch::LaunchStream& stream) { stream_ = &stream; }
  void take(std::string_view bytes);
  void end();
  // Its stream is not used any more; what that has not given yet still comes.
  void let_go();

  // ---- of any owner
  // What becomes of the input when its owner goes without having ended it: it ends, or waits for another one, which
  // is the default.
  void ends_with_owner(bool ends) { ends_with_owner_ = ends; }
  [[nodiscard]] bool has_ended() const { return ended_; }
  [[nodiscard]] bool is_launchers() const { return stream_ != nullptr && !is_given_; }
  // The caller is the owner; what the launcher's stream brings from now on is dropped.
  void give(std::function<void()> on_room);
  // Of that owner. False: the pipe is full, and on_room follows.
  bool put(std::string_view bytes);
  void end_given();
  void leave();

 private:
  LauncherInput() = default;
  void take_held();
  void finish();
  void go_on();

  launch::LaunchStream* stream_ = nullptr;
  UniqueFd pipe_;
  std::unique_ptr<io::FdSink> sink_;
  std::optional<event::Timer> end_timer_;
  std::function<void()> on_room_;  // of an owner that is not the launcher
  bool is_given_ = false;
  bool ends_with_owner_ = false;
  bool ended_ = false;
};

}  // namespace nacre::join
