// SPDX-License-Identifier: Apache-2.0
#include "join/follow_launcher.hpp"

#include <utility>

namespace nacre::join {

Result<void> follow_launcher(ShellProcess& process, boot::Boot& boot, group::Rank rank) {
  if (!boot.launcher) return {};
  LauncherEvents& events = process.launched_by;
  auto on_gone = [&events](const Error& why) {
    events.gone = why;
    if (events.on_gone) events.on_gone();
  };
  if (rank != 0) {
    auto gone = [on_gone] { on_gone({EPIPE, "the process that started this shell has gone"}); };
    process.launch_stream = TRY(launch::LaunchStream::watch(*process.loop, std::move(boot.launcher), gone));
    return {};
  }
  launch::LaunchStream::Callbacks callbacks;
  callbacks.on_signal = [&events, signals = process.signals.get()](int signum) {
    if (events.on_read) events.on_read(signum);
    if (Signals::is_ending(signum)) return signals->received(signum, Signals::From::launcher);
    if (events.on_signal) return events.on_signal(signum);
    events.kept.keep(signum);
  };
  callbacks.on_detach = [&events] {
    if (events.on_detach) events.on_detach();
  };
  callbacks.on_end = [&events](int signum) { events.ended_by = signum; };
  LauncherInput* input = nullptr;
  if (boot.record && boot.record->input) {
    process.launch_input = TRY(LauncherInput::create(*process.loop));
    input = process.launch_input.get();
    callbacks.on_input = [input](std::string_view bytes) { input->take(bytes); };
    callbacks.on_input_end = [input] { input->end(); };
  }
  callbacks.on_gone = on_gone;
  process.launch_stream = TRY(launch::LaunchStream::create(*process.loop, std::move(boot.launcher),
                                                           std::move(boot.launcher_bytes), std::move(callbacks)));
  if (input != nullptr) input->hold_back(*process.launch_stream);
  return {};
}

}  // namespace nacre::join
