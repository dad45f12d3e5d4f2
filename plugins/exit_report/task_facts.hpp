// SPDX-License-Identifier: Apache-2.0
//
// What the shell of a task knows of it once it has failed, as the failure report has it (nacre-exits(7)).
#pragma once

#include <sys/types.h>

#include "plugin/host.hpp"

namespace nacre::plugins {

// Whether the kernel has killed processes of this shell's cgroup because memory ran out. The kernel counts these:
// memory.events of version 2, memory.oom_control of version 1. This compares the count with the last one.
class OomKills {
 public:
  // For the cgroup of `shell`. `root` is put before all names of files.
  static OomKills of_shell(pid_t shell, const std::string& root = "");

  [[nodiscard]] bool are_counted() const { return !events_file_.empty(); }
  // How many more since the last call, or since of_shell(); 0 where the kernel does not count them.
  std::uint64_t fresh();
  // Bytes; none: there is no limit, or it is not known.
  [[nodiscard]] std::optional<std::uint64_t> limit() const;

 private:
  std::string events_file_;  // empty: there is none
  std::string limit_file_;
  std::uint64_t seen_ = 0;
};

class TaskFacts {
 public:
  explicit TaskFacts(plugin::Host& host) : host_(host) {}

  // Before the task starts: sets NACRE_ERROR_FILE, where a program may write why it fails; `torch`: also by
  // PyTorch's name for it.
  void prepare(task::Task& task, bool torch) const;
  void started(const task::Task& task);
  Result<void> watch_memory();  // once the tasks run
  void exited(const task::Task& task);
  // Whether all that the task has written is known: its streams have ended, or it could not be executed.
  [[nodiscard]] bool is_complete(const task::Task& task) const;
  // The facts, with what plugins add to them (report.note).
  [[nodiscard]] Json of(const task::Task& task) const;
  // Whether it has failed by its status, and not by a signal that was sent to all tasks from outside.
  [[nodiscard]] bool has_failed(const task::Task& task) const;
  // What it has written to its error file, as one text; "" if there is nothing.
  [[nodiscard]] std::string error_text(const task::Task& task) const;
  // The last line that it has written to its standard error; "" if there is none.
  [[nodiscard]] std::string last_line(const task::Task& task) const;
  // Where its core dump is, as core_file() has it, with the module that it crashed in, if that can be found; null:
  // it has none.
  [[nodiscard]] Json core(const task::Task& task) const;

 private:
  struct Times {
    double started = 0;  // seconds since the Epoch
    double ended = 0;
    std::uint64_t oom_kills = 0;  // kills that may have hit this task
    bool oom_is_certain = false;
  };

  [[nodiscard]] Times& times(const task::Task& task);
  void add_end(Json& facts, const task::Task& task, const Times& times) const;
  void add_notes(Json& facts, const task::Task& task) const;

  plugin::Host& host_;
  std::vector<Times> times_;  // by local id
  std::optional<OomKills> oom_;
  std::uint64_t oom_left_ = 0;  // kills that belong to no ended task yet
  std::optional<event::Timer> oom_timer_;
};

// Where the core dump of a process is: core(5).
struct Dumped {
  pid_t pid = 0;
  int signum = 0;
  double started = 0;     // seconds since the Epoch: files before that are of other processes
  std::string directory;  // in which it ran when it started
};

// {"dumped": true}, and {"file": path} if it is there, or {"handler": program} if the kernel passes core dumps to a
// program; otherwise {"pattern"}, the kernel's pattern, as there is no such file. `root` is put before the names of
// the kernel's files.
[[nodiscard]] Json core_file(const Dumped& process, const std::string& root = "");

// The glob(7) of the file's name by core_pattern; `*` stands for what is not known of the process.
[[nodiscard]] std::string core_glob(std::string_view pattern, bool uses_pid, const Dumped& process);

}  // namespace nacre::plugins
