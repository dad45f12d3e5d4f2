// SPDX-License-Identifier: Apache-2.0
//
// A cgroup of version 2 for each task, below the shell's own (cgroups(7)): what is in it is the task's, whatever
// the processes do, also those that it leaves behind. The shell's cgroup has to be delegated to the shell's user.
//
//   CGROUP/nacre-NAME/task-RANK.TRY    each task's
//   CGROUP/nacre-NAME/shell            the shell, where the kernel demands that CGROUP itself has no process
//
// The memory of a task is counted if CGROUP has that controller. All is removed, and the shell is where it was,
// when this object goes; what still runs in a task's cgroup then is killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace nacre::plugins {

class TaskCgroups {
 public:
  struct Used {
    double user = 0, system = 0;               // seconds of cpu time
    std::optional<std::uint64_t> memory_peak;  // bytes, of all its processes together; none: it is not counted
    std::optional<std::uint64_t> oom_kills;    // processes; likewise
  };

  // Makes the cgroup for the tasks of the process `shell`, which is this process unless in a test. `name`: of a
  // file, of this job's shell alone. `controller`: that is wanted for tasks. `root` is put before the names of
  // all files. An error says what is missing, and how to get it.
  static Result<std::unique_ptr<TaskCgroups>> make(pid_t shell, const std::string& name,
                                                   const std::string& controller = "memory",
                                                   const std::string& root = "");
  ~TaskCgroups();
  TaskCgroups(const TaskCgroups&) = delete;
  TaskCgroups& operator=(const TaskCgroups&) = delete;

  // Why the controller is not there for tasks; "": it is.
  [[nodiscard]] const std::string& without() const { return without_; }
  // In the child, before it executes: makes its cgroup, and puts the child there.
  [[nodiscard]] Result<void> enter(std::uint32_t rank, std::uint32_t attempt) const;
  // Once the task's first process has ended: what was used. None: it has no cgroup. An empty cgroup is removed.
  [[nodiscard]] std::optional<Used> take(std::uint32_t rank, std::uint32_t attempt);

 private:
  TaskCgroups(pid_t shell, std::string parent, std::string own, std::string controller)
      : shell_(shell), parent_(std::move(parent)), own_(std::move(own)), controller_(std::move(controller)) {}
  Result<void> enable();
  Result<void> make_room(const std::string& in_use);
  [[nodiscard]] std::string directory_of(std::uint32_t rank, std::uint32_t attempt) const;

  pid_t shell_;
  std::string parent_;  // the shell's cgroup
  std::string own_;     // below it, for all tasks
  std::string controller_;
  std::string without_;
  bool has_enabled_ = false;       // in parent_
  bool has_moved_ = false;         // the shell
  std::vector<std::string> left_;  // cgroups that could not be removed yet
};

}  // namespace nacre::plugins
