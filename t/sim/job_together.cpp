// SPDX-License-Identifier: Apache-2.0
//
// How all tasks of a job, or of a shell, start again together, as core/whole_restart.cpp.
#include <csignal>

#include <fmt/format.h>

#include "job_elastic.hpp"
#include "job_leader.hpp"

namespace nacre::sim {

bool JobElastic::asks_for_node() const {
  if (changes().scope != job::RestartOption::Scope::node) return false;
  for (const auto& [rank, each] : kept_) {
    if (each.state == State::asked && !each.whole) return true;
  }
  return false;
}

void JobElastic::begin_together(const Decision& decision) {
  for (auto& [rank, record] : std::exchange(before_answer_, {})) shell_.tasks().record(rank, record);
  bool is_given_up = false;  // by a signal
  for (Rank rank : decision.ranks.ids()) is_given_up = is_given_up || (!decision.whole && !kept_.contains(rank));
  if (is_given_up) {
    for (Rank rank : shell_.tasks().records().ranks().ids())
      shell_.tasks().record(rank, *shell_.tasks().records().of(rank));
    return;
  }
  if (ending() || leaves_) return;
  if (finished_) {
    exits::Cause cause{
        fmt::format("shell {}: its tasks had ended when all were to start again", shell_.process().id()), 1,
        shell_.process().id()};
    shell_.process().witness().failed(shell_.process().id(), cause, true);
    shell_.ending().end_job(cause, "exec");
    return;
  }
  auto delay = Time(static_cast<std::int64_t>(decision.delay * 1e6));
  // Nobody waits for the ends of tasks by the restart before this one any more.
  if (delay_together() && !together_->waits) shell_.group().enter(fmt::format("restart.{}", together_->restarts));
  together_.emplace(JobTogether{job_.restarts, delay, !decision.whole, decision.ordered ? 0 : decision.last});
  together_->ordered = decision.ordered;
  for (Task& each : shell_.tasks().list()) {
    if (each.ended && !ending() && (!is_elsewhere(each.rank) || decision.moves(each.rank))) keep_together(each);
  }
  if (!is_starting_) end_together();  // else once those that are being started run
}

void JobElastic::end_together() {
  if (!together_ || ending()) return;
  together_->ends = true;
  shell_.tasks().kill(SIGTERM);
  if (shell_.tasks().any_runs()) {
    shell_.process().later(kGrace, [this, restarts = together_->restarts] {
      if (together_ && together_->restarts == restarts && !together_->waits) shell_.tasks().kill(SIGKILL);
    });
  }
  wait_for_others();
}

// Its end counts only if nothing starts again, and then as one that this restart has brought about, unless it came
// before.
void JobElastic::keep_together(Task& task) {
  auto kept = kept_.find(task.rank);
  if (kept == kept_.end()) {
    auto known = shell_.tasks().records().of(task.rank);  // it had ended for good
    shell_.tasks().forget(task.rank);
    exits::Record record = known ? *known : exits::Record::victim(task.status);
    kept = kept_.emplace(task.rank, Kept{&task, record, true, false, known ? State::waiting : State::asked}).first;
  }
  bool is_new = std::exchange(kept->second.state, State::together) == State::asked;
  if (is_new) shell_.call(Place::task_exit);
  if (together_ && together_->ends) wait_for_others();
}

void JobElastic::wait_for_others() {
  if (shell_.tasks().any_runs() || std::exchange(together_->waits, true)) return;
  if (together_->is_node) return wait_for_delay();
  shell_.group().enter(fmt::format("restart.{}", together_->restarts));
}

void JobElastic::passed(const std::string& barrier) {
  if (together_ && barrier == fmt::format("restart.{}", together_->restarts)) wait_for_delay();
}

void JobElastic::wait_for_delay() {
  shell_.process().later(together_->delay, [this, restarts = together_->restarts] {
    if (together_ && together_->restarts == restarts) wait_together_is_over();
  });
}

std::optional<double> JobElastic::delay_together() const {
  bool waits = together_ && !together_->is_node && !together_->is_due;
  return waits ? std::optional(static_cast<double>(together_->delay.count()) / 1e6) : std::nullopt;
}

// A signal for tasks of this shell cancels it.
void JobElastic::drop_node() {
  Idset are_ending;
  for (Task& each : shell_.tasks().list()) {
    if (!together_ || !together_->ends || !each.running) continue;
    are_ending.insert(each.rank);
    each.signalled = true;
  }
  together_.reset();
  while (!kept_.empty()) drop(kept_.begin()->first);
  if (!are_ending.empty())
    shell_.process().later(kGrace, [this, are_ending] { shell_.tasks().kill(SIGKILL, are_ending); });
}

void JobElastic::start_together() {
  const std::uint64_t restarts = together_->restarts;
  auto why = together_->number == 0 ? Witness::Why::ordered : Witness::Why::automatic;
  std::erase_if(kept_, [this](const auto& each) { return is_elsewhere(each.first); });
  for (Task& each : shell_.tasks().list()) {
    // Those that have come here meanwhile have not been started, or run.
    if (is_elsewhere(each.rank)) continue;
    if (!kept_.contains(each.rank) && each.started) continue;
    renew(each, job_.attempt_of(each.rank), why, fmt::format("all, {}", together_->number));
  }
  for (auto& [rank, each] : kept_) each.state = State::starting;
  constexpr std::uint64_t kMostHeld = 20'000;
  shell_.process().hold(kMostHeld, [this, restarts] {
    bool stands = together_ && together_->restarts == restarts;  // all tasks of the job may start again by now
    if (ending() || !stands) return;
    together_.reset();
    start_tasks();
  });
}

}  // namespace nacre::sim
