// SPDX-License-Identifier: Apache-2.0
#include "job_tasks.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "group/codec.hpp"
#include "job_elastic.hpp"
#include "job_shell.hpp"

namespace nacre::sim {
namespace {

constexpr std::size_t kBatch = 2;  // tasks that are started together
constexpr int kOfCode = 8;         // bits that a wait status has below the exit code

}  // namespace

JobTasks::JobTasks(JobShell& shell) : shell_(shell) {
  const JobPlan& plan = shell.process().plan();
  for (Id rank = 0; rank < plan.tasks.size(); ++rank) {
    if (plan.tasks[rank].shell == shell.process().id()) tasks_.push_back({rank, plan.tasks[rank]});
  }
}

// ---- they start ----------------------------------------------------------------------------

void JobTasks::start(std::size_t first, const std::function<void()>& done) {
  const JobProcess& process = shell_.process();
  std::size_t last = std::min(first + kBatch, tasks_.size());
  bool failed = false;
  for (std::size_t i = first; i < last && !failed; ++i) failed = !shell_.call(Place::task_init);
  if (process.is_over()) return;
  bool starts = !failed && !shell_.ending().is_ending();
  for (std::size_t i = first; i < last && starts; ++i) take_up(tasks_[i]);
  for (std::size_t i = first; i < last && starts; ++i) {
    if (tasks_[i].running) shell_.call(Place::task_fork);
    if (process.is_over()) return;
  }
  bool more = starts && last < tasks_.size() && !shell_.ending().is_ending();
  shell_.process().hold(process.plan().most_held(), [this, more, last, done] {
    more && !shell_.ending().is_ending() ? start(last, done) : done();
  });
}

void JobTasks::take_up(JobTask& task) {
  JobProcess& process = shell_.process();
  JobElastic* elastic = shell_.elastic();
  task.started = true;
  if (int code = task.plan.not_started; code != 0) {
    task.ended = true;
    task.status = value::WaitStatus::exited(code);
    exits::Cause cause{fmt::format("task {} was not started", task.rank), code, process.id()};
    process.witness().failed(process.id(), cause, true);
    record(task.rank, exits::Record::not_started(code));
    shell_.ending().end_job(cause, "exec");
    return;
  }
  task.running = true;
  ++running_;
  Idset number = elastic != nullptr ? elastic->replica().number_of(task.rank, task.attempt)
                                    : Idset::range(task.rank, task.rank);
  if (!shell_.group().is_cut_off()) process.on_node([&](Node& node) { node.started(number); });
  if (elastic != nullptr) elastic->restart().started(task);
  process.later(task.plan.runs, [this, &task, attempt = task.attempt] {
    if (task.attempt == attempt) ended(task, task.plan.raw);
  });
  if (shell_.ending().is_ending() && !end()) kill(task, SIGTERM);
}

void JobTasks::renew(JobTask& task, std::uint32_t attempt) {
  task.attempt = attempt;
  task.plan = shell_.process().plan().task(task.rank, attempt);
  task.started = task.ended = task.reacts = false;
  victims_.remove(task.rank);
  gone_.remove(task.rank);
}

// ---- they get signals ----------------------------------------------------------------------

bool JobTasks::end(Time grace, bool leaves) {
  if (JobElastic* elastic = shell_.elastic()) elastic->restart().drop_all();
  for (const JobTask& each : tasks_) {
    if (!each.running || victims_.contains(each.rank)) continue;
    victims_.insert(each.rank);
    if (leaves) gone_.insert(each.rank);
  }
  if (running_ == 0 || shutdown_) return false;
  shutdown_ = true;
  kill(SIGTERM);
  shell_.process().later(grace, [this] { kill_again(); });
  return true;
}

void JobTasks::signal(int signum) {
  kill(signum);
  if (JobElastic* elastic = shell_.elastic()) elastic->restart().signalled();
}

void JobTasks::kill_again() {
  kill(SIGKILL);
  shell_.process().later(kSecond, [this] { kill_again(); });
}

void JobTasks::kill(int signum) {
  for (JobTask& each : tasks_) {
    if (each.running) kill(each, signum);
  }
}

void JobTasks::kill(int signum, const Idset& ranks) {
  for (JobTask& each : tasks_) {
    if (each.running && ranks.contains(each.rank)) kill(each, signum);
  }
}

void JobTasks::kill(JobTask& task, int signum) {
  Reaction reaction = signum == SIGKILL ? Reaction::dies : task.plan.reaction;
  if (reaction == Reaction::ignores) return;
  bool exits = reaction == Reaction::exits;
  if (exits && std::exchange(task.reacts, true)) return;
  int raw = exits ? task.plan.code << kOfCode : signum;
  Time soon = exits ? task.plan.reacts : Time(shell_.process().world().random.in(10, 2000));
  shell_.process().later(soon, [this, &task, raw, attempt = task.attempt] {
    if (task.attempt == attempt) ended(task, raw);
  });
}

// ---- they end ------------------------------------------------------------------------------

void JobTasks::ended(JobTask& task, int raw) {
  if (!std::exchange(task.running, false)) return;
  task.ended = true;
  --running_;
  task.status = value::WaitStatus::of_raw(raw);
  JobProcess& process = shell_.process();
  JobElastic* elastic = shell_.elastic();
  process.trace(fmt::format("has seen task {} end: {}", task.rank, task.status.str()));
  if (elastic != nullptr) process.witness().stopped(process.id(), task.rank);
  if (elastic == nullptr || !elastic->restart().keeps(task)) end_for_good(task);
}

void JobTasks::end_for_good(JobTask& task) {
  shell_.call(Place::task_exit);
  if (!shell_.process().is_over()) record(task.rank, record_of(task));
}

exits::Record JobTasks::record_of(const JobTask& task) const {
  if (gone_.contains(task.rank)) return exits::Record::gone(task.status);
  return victims_.contains(task.rank) ? exits::Record::victim(task.status) : exits::Record::of(task.status);
}

// It counts as that of the start that the job waits for.
void JobTasks::record(Id rank, const exits::Record& record) {
  JobElastic* elastic = shell_.elastic();
  Idset number = Idset::range(rank, rank);
  std::uint32_t attempt = elastic != nullptr ? elastic->replica().job().attempt_of(rank) : 1;
  records_.add(number, record);
  shell_.process().witness().recorded(rank, attempt, record.str());
  if (shell_.group().is_cut_off() && !shell_.group().has_left()) return;
  if (elastic != nullptr) number = elastic->replica().number_of(rank, attempt);
  shell_.process().on_node([&](Node& node) {
    node.exited(number, group::encode(group::Ended{number, record}));
  });
}

}  // namespace nacre::sim
