// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of this shell do, by two looks at each of their processes. The busiest process of a task stands
// for it; if none runs, the one that its first process waits for.
#pragma once

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
    pid_t pid = 0;  // that stands for it; 0: it has no process
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
  void add_call(Examined& examined);
  void add_writers(std::vector<Examined>& all);
  [[nodiscard]] doctor::PipeWriter writer_of(const Examined& reader, const std::set<pid_t>& writers) const;
  void add_pmi(const task::Task& task, doctor::Fact& fact);
  void add_output(const task::Task& task, double started, doctor::TaskGroup& group);

  plugin::Host& host_;
  std::map<std::uint32_t, Looks> before_, now_;  // by rank
  std::map<std::uint32_t, std::string> read_;    // by rank: the pipe that it waits to read from
  std::set<std::string> notes_;
};

}  // namespace nacre::plugins
