// SPDX-License-Identifier: Apache-2.0
//
// What a shell stands on: made before there is a Shell, as the shells of a job have to find each other first.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/result.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "group/group.hpp"
#include "join/guard.hpp"
#include "join/kept_signals.hpp"
#include "join/launcher_input.hpp"
#include "join/signals.hpp"
#include "launch/launcher.hpp"
#include "launch/stream.hpp"

namespace nacre::join {

// What comes from who has launched the job, besides the signals that end it (Signals).
struct LauncherEvents {
  std::function<void(int signum)> on_signal;
  std::function<void()> on_gone;  // without its launcher the job ends
  std::optional<Error> gone;
  KeptSignals kept;
};

struct ShellProcess {
  std::unique_ptr<event::Loop> loop;
  std::unique_ptr<event::Children> children;
  std::unique_ptr<Signals> signals;
  std::unique_ptr<Guard> guard;  // where no manager ends what a shell leaves that is killed
  LauncherEvents launched_by;
  std::unique_ptr<LauncherInput> launch_input;          // what the launcher's input goes to
  std::unique_ptr<launch::LaunchStream> launch_stream;  // where a launcher has started this shell
  std::unique_ptr<launch::Launcher> launcher;           // where this shell starts others
  std::unique_ptr<group::Group> group;
  exits::JobEnd end;
  std::optional<Result<group::Group::Gathered>> introductions;  // of all shells, until they are read
  bool joined = false;                                          // all shells of the job have
  bool left = false;                                            // this shell has left the others, in order
};

}  // namespace nacre::join
