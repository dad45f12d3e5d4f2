// SPDX-License-Identifier: Apache-2.0
//
// Reports what is wrong if an MPI job does not come together: the state of each task (the roll call), and the
// library of a task that has not found its peers. In a job of several shells a roll call has all tasks, and shell 0
// logs it.
#pragma once

#include <sys/types.h>

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/pmi/options.hpp"
#include "pmi/server.hpp"

namespace nacre::plugins {

// What proc(5) has about a process: what it does now, and which libraries it has mapped.

// "hello sleeps in futex_wait_queue", "hello runs", "gone". If a shell waits for its child, the child is reported.
[[nodiscard]] std::string activity_of(pid_t pid);

// The names, without directories and in alphabetical order, of the shared objects that the process has mapped and
// that start processes of an MPI job: libmpi*, libmpich*, libpmi*, libpmix*. Empty if this may not be read.
[[nodiscard]] std::vector<std::string> mpi_libraries_of(pid_t pid);

// "0-2,5: TEXT" for each TEXT, in the order of the first rank that has it.
using Said = std::pair<std::uint32_t, std::string>;  // a rank, and its text
[[nodiscard]] std::vector<std::string> folded(const std::vector<Said>& all);

class PmiDoctor {
 public:
  // `server`: that of the tasks; nullptr if they are offered no PMI. All of them outlive the doctor; lines are
  // logged for `plugin`.
  PmiDoctor(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, const pmi::Server* server)
      : host_(host), plugin_(plugin), options_(options), server_(server) {}

  Result<void> watch();  // SIGUSR2 requests a roll call
  void asked();          // requests one; with several shells, once all take part
  void all_listen();     // every shell of the job takes part
  Result<void> tasks_started();
  void barrier(bool begins, std::uint64_t number);  // the first task has entered this barrier, or all have left it
  // This shell's tasks have ended; it still gives its part of a roll call.
  void tasks_ended();

 private:
  void look_for_libraries();
  void ask_for_roll_call(std::string_view what, std::string_view why);
  void give_part(std::string_view announced);
  void log_roll_call(std::string_view why, std::vector<Said> all);
  [[nodiscard]] bool is_alone() const { return host_.bulk() == nullptr; }
  [[nodiscard]] std::vector<Said> roll() const;
  void explain();
  [[nodiscard]] bool knows(const task::Task& task) const;
  [[nodiscard]] std::string doing(const task::Task& task) const;
  void log_line(Level level, std::string_view text) { log(host_, plugin_, level, "{}", text); }

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  const pmi::Server* server_;
  std::optional<event::SignalWatcher> signal_;
  std::optional<event::Timer> barrier_timer_;
  std::optional<event::Timer> library_timer_;
  std::map<std::uint32_t, std::vector<std::string>> libraries_;  // by rank
  int looks_ = 0;
  std::uint64_t barrier_number_ = 0;
  std::uint64_t barrier_reports_ = 0;  // for the current barrier
  std::set<std::string> reported_;     // what nodes have requested roll calls for
  std::uint64_t signals_ = 0;          // that this shell has received
  bool all_listen_ = false;
  std::vector<plugin::Registration> gathers_;  // roll calls that are not over
  plugin::Registration announcements_;
};

}  // namespace nacre::plugins
