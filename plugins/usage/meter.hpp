// SPDX-License-Identifier: Apache-2.0
//
// The usage of this shell's tasks: from task.fork and task.exit it makes a row of each.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/exit_report/task_facts.hpp"
#include "plugins/sysmon/job_usage.hpp"
#include "plugins/usage/task_cgroups.hpp"
#include "usage/measure.hpp"

namespace nacre::plugins {

class TaskMeter {
 public:
  // To be made before a task is started. `keeps_commands`: rows have the commands that are not the job's.
  TaskMeter(plugin::Host& host, bool keeps_commands);
  ~TaskMeter();
  TaskMeter(const TaskMeter&) = delete;
  TaskMeter& operator=(const TaskMeter&) = delete;

  // Tasks have cgroups of their own, which have to outlive this object.
  void read_cgroups(TaskCgroups& cgroups) { cgroups_ = &cgroups; }
  void started(const task::Task& task);
  [[nodiscard]] usage::TaskRow exited(const task::Task& task);  // once for each
  // Tasks of which only root may know what they have read and written, as their programs are set-user-ID.
  [[nodiscard]] std::size_t closed() const { return closed_; }
  // Of this node, once its tasks have ended.
  [[nodiscard]] usage::NodeRow node();

 private:
  struct Start {
    double time = 0;             // since the Epoch
    event::Seconds moment{};     // monotonic
    std::uint64_t own_peak = 0;  // bytes: the most memory of this process then
    int io_file = -1;            // /proc/PID/io, which is open until the task has been reaped
    std::optional<usage::TaskIo> io;
  };

  void look(pid_t pid);
  void add_cgroup(const task::Task& task, usage::TaskRow& row) const;
  std::uint64_t own_peak();

  plugin::Host& host_;
  bool keeps_commands_;
  std::map<pid_t, Start> running_;
  std::uint64_t peak_ = 0;  // of this process, as it was last read
  std::size_t closed_ = 0;
  JobUsage memory_;
  OomKills oom_;
  usage::NodeRow node_;
  TaskCgroups* cgroups_ = nullptr;
};

}  // namespace nacre::plugins
