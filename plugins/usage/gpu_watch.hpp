// SPDX-License-Identifier: Apache-2.0
//
// Asks the tools of this node's GPUs, nvidia-smi and rocm-smi, who uses them: those that are in the PATH, one
// command after the other, each with a limit of time and output, and only when somebody wants a look.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "task/command_run.hpp"
#include "usage/gpu.hpp"

namespace nacre::plugins {

class GpuWatch {
 public:
  static constexpr event::Seconds kMostTime{5};       // of a command
  static constexpr event::Seconds kMostAfterKill{1};  // that it then takes to end: some do not
  static constexpr std::uint32_t kMostFailures = 3;   // of a tool in a row: then it is asked no more
  using Done = std::function<void(const usage::GpuLook& look)>;
  using Complain = std::function<void(const std::string& why)>;

  // `complain`: is called for the first failure of each tool, or at once as there is none. It may be empty.
  GpuWatch(plugin::Host& host, Complain complain, event::Seconds most_time = kMostTime);

  // Begins a look, or joins the one that is under way. `done` is called once, from the loop; at once if there is
  // nobody to ask. Nothing is called after this object's end, which ends what runs.
  void look(Done done);
  // What is wrong now, for people.
  [[nodiscard]] std::set<std::string> notes() const;
  [[nodiscard]] bool has_tools() const { return !tools_.empty(); }

 private:
  struct Step {
    std::vector<std::string> argv;
    Result<void> (usage::GpuLook::*read)(std::string_view text);
  };
  struct Tool {
    std::string name;
    std::vector<Step> steps;
    std::uint32_t failures = 0;  // in a row
    bool has_complained = false;
    std::string why = {};  // it has failed
    [[nodiscard]] bool is_given_up() const { return failures >= kMostFailures; }
  };

  void next();
  void take(const Result<std::string>& printed);
  void fail(Tool& tool, const std::string& why);
  void note(Tool& tool, const std::string& why);
  void await_end();
  void finish();

  plugin::Host& host_;
  Complain complain_;
  event::Seconds most_time_;
  std::vector<Tool> tools_;
  std::vector<Done> waiting_;
  usage::GpuLook look_;
  std::size_t tool_ = 0, step_ = 0;  // of the command that runs
  std::optional<event::Timer> end_;  // by which it has to have ended
  task::CommandRun run_;             // last: it ends before what its callback needs
};

// Of this shell's tasks that run: by the processes that are one of them, or below one.
[[nodiscard]] std::map<std::uint32_t, usage::TaskGpu> gpus_of_tasks(plugin::Host& host, const usage::GpuLook& look);

}  // namespace nacre::plugins
