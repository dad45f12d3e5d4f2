// SPDX-License-Identifier: Apache-2.0
#include "job_whole_restart.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "job_shell.hpp"
#include "job_starts.hpp"

namespace nacre::sim {

void JobWholeRestart::begin(const elastic::RestartDecision& decision) {
  auto delay = Time(static_cast<std::int64_t>(decision.delay * 1e6));
  // Nobody waits for the ends of tasks by the restart before this one any more.
  if (this->delay() && !now_->waits) shell_.group().enter(fmt::format("restart.{}", now_->restarts));
  now_.emplace(Restart{replica_.job().restarts, delay, !decision.whole, decision.ordered ? 0 : decision.last,
                       decision.ordered});
  for (JobTask& each : shell_.tasks().list()) {
    bool is_of_it = replica_.is_here(each.rank) || decision.moves(each.rank);
    if (each.ended && !shell_.ending().is_ending() && is_of_it) keep(each);
  }
}

void JobWholeRestart::end_tasks() {
  if (!now_ || shell_.ending().is_ending()) return;
  now_->ends = true;
  shell_.tasks().kill(SIGTERM);
  if (shell_.tasks().any_runs()) {
    shell_.process().later(kGrace, [this, restarts = now_->restarts] {
      if (is_still(restarts) && !now_->waits) shell_.tasks().kill(SIGKILL);
    });
  }
  wait_for_others();
}

// Its end counts only if nothing starts again, and then as one that this restart has brought about, unless it came
// before.
void JobWholeRestart::keep(JobTask& task) {
  using State = JobKeptEnd::State;
  JobKeptEnd* kept = kept_.find(task.rank);
  if (kept == nullptr) {
    auto known = shell_.tasks().records().of(task.rank);  // it had ended for good
    shell_.tasks().forget(task.rank);
    exits::Record record = known ? *known : exits::Record::victim(task.status);
    kept = &kept_.keep({&task, record, true, false, known ? State::waiting : State::asked});
  }
  bool is_new = std::exchange(kept->state, State::together) == State::asked;
  if (is_new) shell_.call(Place::task_exit);
  if (now_ && now_->ends) wait_for_others();
}

void JobWholeRestart::wait_for_others() {
  if (shell_.tasks().any_runs() || std::exchange(now_->waits, true)) return;
  if (now_->is_node) return wait_for_delay();
  shell_.group().enter(fmt::format("restart.{}", now_->restarts));
}

void JobWholeRestart::passed(const std::string& barrier) {
  if (now_ && barrier == fmt::format("restart.{}", now_->restarts)) wait_for_delay();
}

void JobWholeRestart::wait_for_delay() {
  shell_.process().later(now_->delay, [this, restarts = now_->restarts] {
    if (is_still(restarts)) wait_is_over();
  });
}

void JobWholeRestart::wait_is_over() {
  now_->moves = now_->is_node && !now_->ordered && replica_.asks_for_spares();
  now_->is_due = !now_->moves;
  if (!now_->moves) return;
  const job::Job& job = replica_.job();
  elastic::SpareRequest asked{shell_.process().id(), true, {}};
  for (Id rank : job.taskmap.ranks_on(shell_.process().id()).ids())
    asked.starts.emplace_back(rank, job.attempt_of(rank));
  shell_.group().announce("shell.restart-to-spare", asked.text());
}

std::optional<double> JobWholeRestart::delay() const {
  bool waits = now_ && !now_->is_node && !now_->is_due;
  return waits ? std::optional(static_cast<double>(now_->delay.count()) / 1e6) : std::nullopt;
}

void JobWholeRestart::stay() {
  now_->moves = false;
  now_->is_due = true;
}

void JobWholeRestart::drop_node() {
  Idset are_ending;
  for (JobTask& each : shell_.tasks().list()) {
    if (!now_ || !now_->ends || !each.running) continue;
    are_ending.insert(each.rank);
    each.signalled = true;
  }
  now_.reset();
  kept_.drop_all();
  if (!are_ending.empty())
    shell_.process().later(kGrace, [this, are_ending] { shell_.tasks().kill(SIGKILL, are_ending); });
}

std::uint64_t JobWholeRestart::renew_tasks() {
  auto why = now_->number == 0 ? Witness::Why::ordered : Witness::Why::automatic;
  kept_.erase_if([this](Id rank) { return !replica_.is_here(rank); });
  for (JobTask& each : shell_.tasks().list()) {
    // Those that have come here meanwhile have not been started, or run.
    if (!replica_.is_here(each.rank)) continue;
    if (!kept_.contains(each.rank) && each.started) continue;
    starts_.renew(each, replica_.job().attempt_of(each.rank), why, fmt::format("all, {}", now_->number));
  }
  kept_.start_all();
  return now_->restarts;
}

}  // namespace nacre::sim
