// SPDX-License-Identifier: Apache-2.0
#include "core/launcher_tie.hpp"

namespace nacre::core {

ShellLauncherTie::~ShellLauncherTie() {
  process_.launcher_events.on_detach = nullptr;
  if (auto* output = host_.task_output()) output->redirect(nullptr);
}

void ShellLauncherTie::offer_output(plugin::TaskOutput& output) {
  if (at_start_ || outlives_) output.redirect(this);
}

void ShellLauncherTie::outlive_launcher() {
  outlives_ = true;
  if (auto* output = host_.task_output()) offer_output(*output);
}

bool ShellLauncherTie::gone() {
  if (is_detached()) return true;
  if (!outlives_ || !running_ || host_.ending()) return false;
  Result<void> detached = detach();
  if (detached) host_.log().log(Level::notice, "", "the job goes on without its launcher, which has gone");
  return detached.has_value();
}

void ShellLauncherTie::leave() {
  if (!can_leave() || is_detached()) return;
  Result<void> opened = process_.detachment->open();
  if (!opened) return report(opened.error());
  std::string id = host_.job().id.f58_plain();
  host_.log().log(Level::notice, "", "left job {}, which goes on: `nacre attach {}` shows it", id, id);
  static_cast<void>(detach());
}

Result<void> ShellLauncherTie::detach() {
  if (is_detached()) return {};
  if (at_start_ && process_.launch_stream && process_.launch_stream->has_hung_up())
    return Error{EPIPE, "the launcher has gone before it got the job's id"};
  join::Detachment& detachment = *process_.detachment;
  Result<void> taken = at_start_ ? Result<void>() : detachment.take_streams();
  if (!taken) {
    report(taken.error());
    return taken;
  }
  if (auto* output = host_.task_output()) output->redirect(this);
  if (process_.guard) process_.guard->detached(detachment.path());
  if (process_.launch_input) process_.launch_input->let_go();
  if (process_.launch_stream) process_.launch_stream->let_go();
  detachment.let_go();
  return {};
}

Result<void> ShellLauncherTie::take_over_input() {
  if (!process_.launch_input) process_.launch_input = TRY(join::LauncherInput::create(*process_.loop));
  input_.emplace(*process_.launch_input);
  return {};
}

// The launcher may still be there: only the stream to which writing has failed goes to the file.
bool ShellLauncherTie::closed() {
  if (!outlives_) return false;
  Result<void> opened = process_.detachment->open();
  if (!opened) report(opened.error());
  return opened.has_value();
}

void ShellLauncherTie::report(const Error& why) {
  host_.log().log(Level::error, "",
                  "the job cannot go on without its launcher: there is no file for its output: {}", why.message);
}

// The message may be lost as well: the job's entry has the number.
void ShellLauncherTie::lost(const Error& why, std::uint64_t bytes) {
  bool is_first = std::exchange(lost_, lost_ + bytes) == 0;
  if (!is_first) return;
  host_.log().log(Level::warn, "", "{}: {}: output is missing from here on; the job goes on",
                  process_.detachment->path(), why.message);
}

}  // namespace nacre::core
