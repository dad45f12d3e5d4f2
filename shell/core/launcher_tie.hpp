// SPDX-License-Identifier: Apache-2.0
//
// How a leader is tied to the launcher that has started it, and parts from it (plugin/host.hpp).
#pragma once

#include "join/shell_process.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

// The launcher's standard input, for plugins.
class ShellJobInput final : public plugin::JobInput {
 public:
  explicit ShellJobInput(join::LauncherInput& input) : input_(input) {}
  void ends_with_owner(bool ends) override { input_.ends_with_owner(ends); }
  [[nodiscard]] bool has_ended() const override { return input_.has_ended(); }
  [[nodiscard]] bool is_launchers() const override { return input_.is_launchers(); }
  [[nodiscard]] bool was_taken() const override { return was_taken_; }
  void own(For whom, std::function<void()> on_room) override {
    was_taken_ = was_taken_ || whom == For::other;
    input_.give(std::move(on_room));
  }
  bool write(std::string_view bytes) override { return input_.put(bytes); }
  void end() override { input_.end_given(); }
  void leave() override { input_.leave(); }

 private:
  join::LauncherInput& input_;
  bool was_taken_ = false;
};

class ShellLauncherTie final : public plugin::LauncherTie, public plugin::OutputFile {
 public:
  // All must outlive it; `process` has a detachment.
  ShellLauncherTie(plugin::Host& host, join::ShellProcess& process, bool at_start)
      : host_(host), process_(process), at_start_(at_start) {
    if (process.launch_input) input_.emplace(*process.launch_input);
  }
  ~ShellLauncherTie() override;

  // All tasks of the job have started: from now on it can detach.
  void tasks_run() { running_ = true; }
  // `output` may have to go to a file.
  void offer_output(plugin::TaskOutput& output);
  // The launcher or the terminal has gone. Returns whether the job goes on without it.
  bool gone();
  // The launcher wants to leave: it asks again if it cannot yet.
  void leave();
  [[nodiscard]] bool can_leave() const { return running_ && is_found_ && !host_.ending(); }

  [[nodiscard]] bool starts_detached() const override { return at_start_; }
  void outlive_launcher() override;
  void can_be_found() override { is_found_ = true; }
  Result<void> detach() override;
  [[nodiscard]] bool is_detached() const override { return process_.detachment->is_detached(); }
  [[nodiscard]] std::string directory() const override { return process_.detachment->directory(); }
  [[nodiscard]] std::uint64_t lost_output() const override { return lost_; }

  plugin::JobInput* input() override { return input_ ? &*input_ : nullptr; }
  Result<void> take_over_input() override;

  // As the place of the tasks' output.
  std::optional<int> file() override { return process_.detachment->file(); }
  bool closed() override;
  void lost(const Error& why, std::uint64_t bytes) override;

 private:
  void report(const Error& why);

  plugin::Host& host_;
  join::ShellProcess& process_;
  std::optional<ShellJobInput> input_;
  bool at_start_;
  bool outlives_ = false;
  bool running_ = false;
  bool is_found_ = false;
  std::uint64_t lost_ = 0;  // bytes
};

}  // namespace nacre::core
