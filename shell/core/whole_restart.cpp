// SPDX-License-Identifier: Apache-2.0
//
// ShellRestart where tasks start again together, because one of them does or by `nacre restart`. All of the job:
// the leader grants it; each shell ends its tasks, waits for the others, and starts them anew. All of a shell
// (scope=node): that shell does so, and waits for no other.
#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "core/shell_restart.hpp"
#include "elastic/starts.hpp"

namespace nacre::core {
namespace {

// With scope=node: a signal has ended it before the decision came.
bool is_given_up(const elastic::RestartDecision& decision, const std::map<value::Idset::Id, KeptEnd>& kept) {
  auto ranks = decision.ranks.ids();
  return !decision.whole &&
         std::any_of(ranks.begin(), ranks.end(), [&](value::Idset::Id rank) { return !kept.contains(rank); });
}

}  // namespace

// ---- every shell's -----------------------------------------------------------------------------

// With scope=node: an end has been kept back, and the decision is still to come.
bool ShellRestart::asks_for_node() const {
  return option_.scope == job::RestartOption::Scope::node &&
         std::any_of(kept_.begin(), kept_.end(),
                     [](const auto& each) { return each.second.state == State::asked && !each.second.whole; });
}

void ShellRestart::decide_together(const Message& message) {
  moving_.last = host_.last_with_tasks();
  Decision decision = recovery_->decide_together(message);
  const bool is_mine = message.shell == job_.shell_rank;
  shells_.notices().moved(decision.places.moves, true);
  if (decision.stands) reports_.decided(message.shell, decision);
  if (decision.is_granted()) {
    for (Rank rank : decision.together.ids())
      shells_.all_tasks().expect(value::Idset::range(rank, rank), job_.attempt_of(rank));
    if (moving_.moved) moving_.moved(decision.places.moves);
    if (message.whole || is_mine) begin_together(decision);
    return;
  }
  if (!is_mine) return;
  value::Idset refused_ones = decision.ranks;
  // With scope=node the ends of this shell that were kept back with it are no others, either.
  for (const auto& [rank, kept] : kept_) {
    if (!message.whole && kept.state == State::asked && !kept.whole) refused_ones.insert(rank);
  }
  for (Rank rank : refused_ones.ids()) refused(rank);
}

// ---- by nacre restart --------------------------------------------------------------------------

void ShellRestart::serve_orders() {
  auto takes_all = [this](const task::Task& task) -> Result<bool> {
    if (shrink_.leaves()) return Error{ECANCELED, "its shell is about to leave the job"};
    if (together_) return Error{EALREADY, "it waits for its next start"};
    return rules_.takes_all(task);
  };
  orders_.serve({std::move(takes_all), [this] { requests_.order_all(); },
                 [this](int signum, const value::Idset& ranks) {
                   // Only what users send from now on prevents the next start.
                   if (signum == SIGTERM) {
                     for (Rank rank : ranks.ids()) rules_.forget_signals(rank);
                   }
                   signals_itself_ = true;
                   tasks_.kill(signum, ranks);
                   signals_itself_ = false;
                 }},
                grace_);
}

void ShellRestart::ordered(std::string_view bytes) {
  auto ranks = RestartOrders::parse(bytes);
  if (!ranks) return host_.log().log(Level::warn, "", "restart: an order that this version does not understand");
  if (end_.is_decided()) return;
  if (*ranks && option_.scope != job::RestartOption::Scope::job) return orders_.end(**ranks);
  if (shells_.leads()) answers_.answer_order();
}

void ShellRestart::answered_order(const Message& message) {
  answers_.order_answered();
  if (end_.is_decided()) return;
  auto decision = recovery_->decide_order(message);
  if (!decision) return shells_.leads() ? answers_.answer_order() : void();
  reports_.decided(message.shell, *decision);
  for (Rank rank : decision->together.ids())
    shells_.all_tasks().expect(value::Idset::range(rank, rank), job_.attempt_of(rank));
  begin_together(*decision);
}

// ---- all tasks start again ---------------------------------------------------------------------

void ShellRestart::begin_together(const Decision& decision) {
  // Those that it has given up meanwhile end the job.
  for (auto& [rank, record] : std::exchange(before_answer_, {})) tasks_.record_end(rank, record);
  if (is_given_up(decision, kept_)) {  // the tasks go on; the ends that there are count under the new starts, too
    for (Rank rank : tasks_.outcomes().ranks().ids()) tasks_.record_end(rank, *tasks_.outcomes().of(rank));
    return;
  }
  if (host_.ending() || shrink_.leaves()) return;
  if (finished_) return raise_finished(decision);
  if (together_) together_->leave();
  const std::uint32_t before = decision.places.moves.empty() ? 0 : moving_.last;
  const std::uint32_t last = std::max(host_.last_with_tasks(), before);
  auto kill = [this](int signum) {
    signals_itself_ = true;
    host_.kill_tasks(signum);
    signals_itself_ = false;
  };
  RestartTogether::Plan plan{job_.restarts, decision.delay, !decision.whole, last, decision.ordered};
  together_.emplace(host_, tasks_, plan, kill, [this] { wait_together_is_over(); });
  for (const auto& task : tasks_.all()) {
    // One that has gone to another shell before is no task of this one; one that goes now is, until it has ended.
    bool has_gone = job_.taskmap.node_of(task->rank()) != job_.shell_rank && !decision.moves(task->rank());
    if (task->state() == task::State::exited && !has_gone && !host_.ending()) keep_together(*task);
  }
  if (together_ && !is_starting_) together_->end_tasks(grace_);  // else once those that are being started run
}

// The job ends as the task has that was to start again with them.
void ShellRestart::raise_finished(const Decision& decision) {
  std::string what = fmt::format("shell {}{}: its tasks had ended when all were to start again", job_.shell_rank,
                                 job_.node().on());
  const auto& status = decision.record.status();
  bool has_failed = host_.exit_policy().is_failure(decision.record) && status && !decision.ranks.empty();
  if (!has_failed) return host_.raise({"exec", 0, what, value::WaitStatus::exited(1)});
  Rank rank = *(decision.first_failed.empty() ? decision.ranks : decision.first_failed).first();
  host_.raise({"exec", 0, fmt::format("{}, as rank {} {}", what, rank, status->str()), status,
               exits::TaskEnd{rank, decision.record}});
}

// Its end counts only if nothing starts again, and then as one that this restart has brought about, unless it came
// before.
void ShellRestart::keep_together(task::Task& task) {
  Rank rank = task.rank();
  auto kept = kept_.find(rank);
  if (kept == kept_.end()) {
    auto known = tasks_.outcomes().of(rank);  // it had ended for good
    tasks_.forget_end(rank);
    exits::Record record = known ? *known : exits::Record::victim(task.status());
    kept = kept_
               .emplace(rank, KeptEnd{&task, record, exits::FailureFacts{rank, record}, true, false,
                                      known ? State::waiting : State::asked})
               .first;
  }
  bool is_new = std::exchange(kept->second.state, State::together) == State::asked;
  kept->second.timer.reset();
  task.set_starts_again(true);
  if (is_new) {
    auto takes_all = together_->plan().is_node ? rules_.pmi_takes_all(rank) : Result<bool>(false);
    task.kill_left();
    tasks_.call_exit(task);
    if (!takes_all || *takes_all)  // it has not been so when the tasks were to start again without the others
      return host_.raise({"exec", 0,
                          fmt::format("rank {}{} cannot start again with the tasks of its shell only: {}", rank,
                                      shells_.has_others() ? job_.node().on() : "",
                                      takes_all ? "tasks have called PMI init" : takes_all.error().message),
                          value::WaitStatus::exited(1)});
  }
  if (together_) together_->task_ended();
}

// A signal for tasks of this shell cancels it: those that have ended have their records, those that are being ended
// get them.
void ShellRestart::drop_node() {
  value::Idset ending;
  for (const auto& task : tasks_.all()) {
    if (!together_ || !together_->ends_tasks() || task->state() != task::State::running) continue;
    ending.insert(task->rank());
    rules_.note_signal(static_cast<Rank>(task->rank()), SIGTERM);
  }
  together_.reset();
  while (!kept_.empty()) drop(kept_.begin()->first);
  if (ending.empty()) return;
  auto timer = event::Timer::create(host_.loop(), [this, ending] { tasks_.kill(SIGKILL, ending); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  last_kill_ = *std::move(timer);
  last_kill_->start_grace(grace_);
}

Result<void> ShellRestart::start_together(const std::function<void()>& wait_for_holds) {
  value::Idset ranks;
  if (!together_->plan().is_node) {
    tasks_.remove_moved();
    std::erase_if(kept_, [this](const auto& each) { return job_.taskmap.node_of(each.first) != job_.shell_rank; });
  }
  for (std::size_t id = 0; id < tasks_.all().size(); ++id) {
    const task::Task& task = *tasks_.all()[id];
    // Those that have come here meanwhile have not been started, or run.
    if (!kept_.contains(task.rank()) && task.state() != task::State::init) continue;
    ranks.insert(task.rank());
    tasks_.renew(id, job_.attempt_of(task.rank()), together_->plan().restarts);
  }
  for (auto& [rank, each] : kept_) each.state = State::starting;
  plugin::Call call("shell.restart");
  call.in = {{"ranks", ranks.str()}, {"all", !together_->plan().is_node}};
  const std::uint64_t restarts = together_->plan().restarts;
  TRY(host_.stack().call(call));
  wait_for_holds();
  bool stands = together_ && together_->plan().restarts == restarts;  // all tasks of the job may start again by now
  if (host_.ending() || !stands) return {};
  together_.reset();
  answers_.note_start();
  return start_tasks();
}

}  // namespace nacre::core
