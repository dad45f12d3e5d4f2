// SPDX-License-Identifier: Apache-2.0
//
// What a shell needs before there is a Shell, as the shells of a job first have to find each other.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/json.hpp"
#include "base/result.hpp"
#include "elastic/growth.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "group/group.hpp"
#include "join/detachment.hpp"
#include "join/guard.hpp"
#include "join/kept_signals.hpp"
#include "join/later_shells.hpp"
#include "join/launcher_input.hpp"
#include "join/signals.hpp"
#include "launch/launcher.hpp"
#include "launch/stream.hpp"
#include "timeline/recorder.hpp"

namespace nacre::join {

// What comes from the job's launcher, besides the signals that end the job (Signals).
struct LauncherEvents {
  std::function<void(int signum)> on_read;  // any signal, before anything is done about it
  std::function<void(int signum)> on_signal;
  std::function<void()> on_detach;  // it wants to leave; before the tasks run it cannot
  std::function<void()> on_gone;    // the job ends without its launcher
  std::optional<Error> gone;
  std::optional<int> ended_by;  // the launcher has ended the job because of this signal, before it went
  KeptSignals kept;

  // Why the job ends once the launcher has gone; `shell`: this one.
  [[nodiscard]] exits::Cause end_cause(std::uint32_t shell) const {
    return ended_by ? exits::ended_by_signal(*ended_by, shell) : exits::Cause{gone->message, std::nullopt, shell};
  }
};

// What a shell that joins a job that runs has to know besides.
struct LateShell {
  elastic::Growth growth;  // all shells that have joined later, this one too
  Json state;              // what the job has come to (core/shell_grow.hpp)
};

struct ShellProcess {
  std::unique_ptr<event::Loop> loop;
  std::unique_ptr<event::Children> children;
  std::unique_ptr<Signals> signals;
  std::unique_ptr<Guard> guard;            // none if a manager ends what a killed shell leaves
  std::unique_ptr<Detachment> detachment;  // of a leader that a launcher has started
  LauncherEvents launched_by;
  std::unique_ptr<LauncherInput> launch_input;          // takes the launcher's input
  std::unique_ptr<launch::LaunchStream> launch_stream;  // set if a launcher has started this shell
  std::unique_ptr<launch::Launcher> launcher;           // set if this shell starts others
  std::unique_ptr<LaterShells> later;                   // of a leader that starts others, or can do so later
  std::unique_ptr<group::Group> group;
  exits::JobEnd end;
  timeline::Recorder timeline;
  std::optional<Result<group::Group::Gathered>> introductions;  // from all shells, until they are read
  bool joined = false;                                          // all shells of the job have joined
  bool joins_late = false;                                      // this one joins a job that runs
  std::optional<LateShell> late;                                // once it has joined, until it is read
  bool left = false;                                            // this shell has left the others in order
};

}  // namespace nacre::join
