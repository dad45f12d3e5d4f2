// SPDX-License-Identifier: Apache-2.0
//
// The tasks of one shell, as core/shell_tasks.cpp has them without processes: they start, get signals and end, and
// each end has a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "exits/outcomes.hpp"
#include "job_task.hpp"
#include "world.hpp"

namespace nacre::sim {

inline constexpr Time kGrace = 3 * kSecond;  // of tasks that get SIGTERM

class JobShell;

class JobTasks {
 public:
  explicit JobTasks(JobShell& shell);

  // From this one on, a batch after the other; `done`: those that can start have.
  void start(std::size_t first, const std::function<void()>& done);
  void take_up(JobTask& task);
  void add(const JobTask& task) { tasks_.push_back(task); }     // which comes from another shell
  void renew(JobTask& task, std::uint32_t attempt);             // for its next start
  [[nodiscard]] std::deque<JobTask>& list() { return tasks_; }  // by start on this shell
  [[nodiscard]] bool any_runs() const { return running_ > 0; }

  bool end(Time grace = kGrace, bool leaves = false);  // false: none runs, or they are being ended already
  void signal(int signum);                             // from outside
  void kill(int signum);
  void kill(int signum, const Idset& ranks);
  void kill(JobTask& task, int signum);

  void end_for_good(JobTask& task);  // it does not start again
  void record(Id rank, const exits::Record& record);
  void forget(Id rank) { records_.forget(Idset::range(rank, rank)); }
  [[nodiscard]] exits::Record record_of(const JobTask& task) const;
  [[nodiscard]] const exits::Outcomes& records() const { return records_; }

 private:
  void kill_again();
  void ended(JobTask& task, int raw);

  JobShell& shell_;
  std::deque<JobTask> tasks_;  // they stay where they are
  std::size_t running_ = 0;
  Idset victims_, gone_;
  bool shutdown_ = false;
  exits::Outcomes records_;
};

}  // namespace nacre::sim
