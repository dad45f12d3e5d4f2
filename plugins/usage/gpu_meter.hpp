// SPDX-License-Identifier: Apache-2.0
//
// What this shell's tasks use of GPUs, by a look every 2 s while some of them run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "task/subprocess.hpp"
#include "usage/gpu.hpp"

namespace nacre::plugins {

// Asks the tools of this node's GPUs, nvidia-smi and rocm-smi, who uses them: those that are in the PATH, one
// command after the other, each with a limit of time and output, and only when somebody wants a look.
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

class GpuMeter {
 public:
  static constexpr event::Seconds kFirstLook{0.5};  // after the start of a task
  static constexpr event::Seconds kPeriod{2};       // from the end of a look to the next

  GpuMeter(plugin::Host& host, GpuWatch::Complain complain);

  Result<void> started(const task::Task& task);
  // None: there was no look while it ran.
  [[nodiscard]] std::optional<usage::TaskGpu> exited(const task::Task& task);
  [[nodiscard]] std::vector<usage::NodeGpu> devices() const { return devices_.taken(); }
  // Of the last look, for who asks: nacre-shell-plugins(7) has the members under usage.gpus.
  [[nodiscard]] Json now() const;
  // No look begins any more, and none is waited for.
  void stop();

 private:
  void look();
  void take(const usage::GpuLook& look);

  plugin::Host& host_;
  std::optional<GpuWatch> watch_;
  std::optional<event::Timer> timer_;
  std::map<std::uint32_t, usage::TaskGpuTally> running_;  // by rank
  std::map<std::uint32_t, usage::TaskGpu> last_;          // likewise
  usage::NodeGpuTally devices_;
  bool is_due_ = false;  // a look is under way, or the timer runs
};

// [rank, memory, use of its devices] of each, null for what is not known; and back.
[[nodiscard]] Json wire_of_gpus(const std::map<std::uint32_t, usage::TaskGpu>& tasks);
[[nodiscard]] Result<std::map<std::uint32_t, usage::TaskGpu>> gpus_from(const Json& wire);

}  // namespace nacre::plugins
