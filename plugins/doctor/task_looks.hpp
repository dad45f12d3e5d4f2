// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of this shell do, by two looks at each of their processes and threads. The busiest thread of the
// busiest process of a task stands for it; if none runs, the process that its first process waits for, by its first
// thread, or by one that waits for a descriptor if the first waits for a thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "doctor/facts.hpp"
#include "plugin/host.hpp"
#include "plugins/doctor/process_look.hpp"

namespace nacre::plugins {

class TaskLooks {
 public:
  explicit TaskLooks(plugin::Host& host);  // the first look

  // A task of this shell that has not ended.
  struct Examined {
    std::uint32_t rank = 0;
    pid_t pid = 0;            // that stands for it; 0: it has no process
    pid_t tid = 0;            // of its thread
    std::set<pid_t> waiting;  // other threads of it, as waiting_threads() has them
    bool was_stopped = false;
    doctor::TaskGroup group;  // of this rank alone
  };
  // The second look, `interval` seconds after the first.
  [[nodiscard]] std::vector<Examined> look_again(double interval);
  // What could not be found out, for people; after the second look.
  [[nodiscard]] const std::set<std::string>& notes() const { return notes_; }

 private:
  using Looks = std::map<pid_t, ProcessLook>;

  [[nodiscard]] static Looks processes_of(const task::Task& task);
  [[nodiscard]] static const ProcessLook& representative(const task::Task& task, const Looks& before,
                                                         const Looks& now, double interval);
  Examined examine(const task::Task& task, double interval);
  void add_changes(const Looks& before, const Looks& now, double interval, doctor::TaskGroup& group);
  void add_call(Examined& examined, const ThreadLook& thread);
  void add_pipe_ends(std::vector<Examined>& all);
  [[nodiscard]] doctor::PipeEnd end_of(const Examined& examined, const std::set<pid_t>& holders) const;
  void add_pmi(const task::Task& task, doctor::Fact& fact);
  void add_output(const task::Task& task, double started, doctor::TaskGroup& group);

  plugin::Host& host_;
  std::map<std::uint32_t, Looks> before_, now_;  // by rank
  std::map<std::uint32_t, std::string> pipes_;   // by rank: the pipe that it waits to read from, or to write to
  std::set<std::string> notes_;
};

// Who has pipes open: by one look at the descriptors of all processes, and only if a task waits to read from a
// pipe, or to write to one.
struct PipeEnds {
  std::set<pid_t> writers, readers;
};

// `links`: of pipes, as /proc/PID/fd has them. Processes whose descriptors this one may not see are left out.
[[nodiscard]] std::map<std::string, PipeEnds> pipe_ends(const std::set<std::string>& links);

}  // namespace nacre::plugins
