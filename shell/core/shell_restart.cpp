// SPDX-License-Identifier: Apache-2.0
#include "core/shell_restart.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "core/what_to_run.hpp"
#include "elastic/starts.hpp"
#include "job/option_types.hpp"
#include "plugin/failure_evidence.hpp"
#include "value/duration.hpp"

namespace nacre::core {
Result<void> ShellRestart::serve() {
  option_ = TRY(job::RestartOption::read(host_.options()));
  if (!option_.is_on()) return {};
  if (host_.options().is_switched_on("pty"))
    return host_.options().at("restart")->error(
        "a task with a terminal (pty) cannot be started again: leave out one of them");
  grace_ = event::Seconds(TRY(job::kill_timeout(host_.options())).seconds());
  elastic::Restarts::Limits limits;
  limits.job = option_.max;
  reports_.set_most(option_.max);
  if (option_.scope == job::RestartOption::Scope::node) requests_.take_node();
  limits.per_task = option_.per_task.value_or(limits.per_task);
  limits.first = option_.first.seconds();
  limits.longest = option_.longest.seconds();
  restarts_.emplace(limits);
  recovery_.emplace(job_, *restarts_,
                    [this](std::uint32_t shell) { return !end_.is_decided() && shells_.roster().stays(shell); });
  if (option_.where == job::RestartOption::Where::spare) recovery_->use_spares(shares_cores(host_.options()));
  turn_ = TRY(event::Timer::create(host_.loop(), [this] {
    requests_.send(kept_, [this](Rank rank) { refused(rank); });
    ask_for_spares();
  }));
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == RestartOrders::kOrdered) return ordered(bytes);
    if (topic == kToSpare) return asked_for_spare(bytes);
    if (topic != Message::kAsked && topic != Message::kAnswered) return;
    auto message = Message::parse(bytes, job_.shells());
    if (!message)
      return host_.log().log(Level::warn, "", "restart: an announcement that this version does not understand");
    if (topic == Message::kAsked) return announced(*message);
    message->ends.empty() ? answered_order(*message) : decide_together(*message);
  });
  ShellTasks::Restarting restarting;
  restarting.started = [this](const task::Task& task) { started(task); };
  restarting.keeps = [this](task::Task& task) { return keep(task); };
  restarting.signalled = [this](int signum, const group::Targets& which) { signalled(signum, which); };
  restarting.end = [this] { drop_all(); };
  tasks_.set_restarting(std::move(restarting));
  serve_orders();
  answers_.serve([this] { return together_.has_value(); });
  return {};
}

// ---- an end of a task of this shell ------------------------------------------------------------

bool ShellRestart::keep(task::Task& task) {
  const Rank rank = task.rank();
  bool is_ordered = orders_.has(rank);
  orders_.drop(rank);
  if (together_ && !host_.ending()) {
    keep_together(task);
    return true;
  }
  if (asks_for_node() && !host_.ending()) {  // what is decided is for this one, too
    keep_asking(task, tasks_.record_of(task), false, is_ordered);
    if (requests_.has_unsent()) requests_.add(rank);
    return true;
  }
  if (host_.ending() || shrink_.leaves() || !rules_.wants(task, is_ordered)) return false;
  auto takes_all = rules_.takes_all(task);
  if (!takes_all)
    reports_.refused(value::Idset::range(rank, rank), job_.shell_rank, tasks_.record_of(task),
                     takes_all.error().message);
  if (!takes_all || host_.ending()) return false;
  exits::Record record = is_ordered ? exits::Record::victim(task.status()) : tasks_.record_of(task);
  // Those that end at once are announced at once. One that has only lost another waits for that one.
  bool is_first = !requests_.has_unsent();
  keep_asking(task, record, *takes_all, is_ordered);
  requests_.add(rank);
  bool is_together = *takes_all || option_.scope == job::RestartOption::Scope::node;
  bool waits = is_together && !is_ordered && kept_.at(rank).failure.origin == exits::Origin::peer;
  if (!waits || is_first) turn_->start(waits ? kSettle : event::Seconds::zero());
  return true;
}

void ShellRestart::keep_asking(task::Task& task, const exits::Record& record, bool whole, bool is_ordered) {
  kept_.emplace(task.rank(), KeptEnd{&task, record, plugin::failure_of(host_, task, record), whole, is_ordered});
  task.set_starts_again(true);
}

// The end of a task by a signal that a user has sent is no failure; nor is anything once all are to end.
void ShellRestart::signalled(int signum, const group::Targets& which) {
  if (signals_itself_) return;
  const bool ends = RestartRules::is_to_end(signum);
  const bool is_node = together_ && together_->plan().is_node;
  if (together_ && !is_node && !which && ends && !host_.ending()) {
    auto status = value::WaitStatus::killed(signum);
    return host_.raise({"exec", 0, fmt::format("{}, while the job was to start again", status.str()), status});
  }
  for (auto& [rank, signals] : moving_.coming) {
    if (ends && (!which || which->contains(rank))) signals.insert(signum);
  }
  bool ends_node = false;
  for (const auto& task : tasks_.all()) {
    Rank rank = task->rank();
    if (which && !which->contains(rank)) continue;
    if (task->state() == task::State::running) rules_.note_signal(rank, signum);
    auto kept = kept_.find(rank);
    bool is_kept = kept != kept_.end();
    if (ends && is_kept && (kept->second.state == State::moving || (is_node && together_->is_moving()))) {
      moving_.late[rank].insert(signum);
      continue;
    }
    bool waits = is_kept && kept->second.state < State::starting;
    ends_node =
        ends_node ||
        (ends && ((is_node && !(is_kept && kept->second.state == State::starting)) || (waits && asks_for_node())));
    if (waits && ends && !ends_node) drop(rank);
  }
  if (ends_node) drop_node();
}

// ---- in the order of the log -------------------------------------------------------------------

void ShellRestart::announced(const Message& message) {
  if (message.ends.empty()) return shells_.leads() ? answers_.answer_order() : void();
  if (!message.whole && option_.scope == job::RestartOption::Scope::node) return decide_together(message);
  bool is_mine = message.shell == job_.shell_rank;
  elastic::Recovery::Alone decided = recovery_->decide(message);
  for (const Decision& each : decided.decisions) {
    if (each.is_granted()) shells_.all_tasks().expect(each.ranks, each.attempt);
  }
  for (Rank rank : decided.fallen.ids()) {
    if (is_mine) refused(rank);
  }
  if (message.whole && decided.fallen.empty() && shells_.leads()) answers_.answer(message);
  for (const Decision& each : decided.decisions) {
    reports_.decided(message.shell, each);
    for (Rank rank : each.ranks.ids()) {
      if (is_mine) each.why_not.empty() ? granted(rank, each) : refused(rank);
    }
  }
}

void ShellRestart::refused(Rank rank) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end() || kept->second.state != State::asked) return;
  task::Task* task = kept->second.task;
  kept_.erase(kept);
  task->set_starts_again(false);
  tasks_.end_for_good(*task);
}

void ShellRestart::granted(Rank rank, const Decision& decision) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end()) {  // this shell has given it up meanwhile
    if (auto before = before_answer_.extract(rank)) tasks_.record_end(rank, before.mapped());
    return;
  }
  KeptEnd& of = kept->second;
  of.attempt = decision.attempt;
  of.restarts = job_.restarts;
  of.state = State::waiting;
  auto timer = event::Timer::create(host_.loop(), [this, rank] { wait_is_over(rank); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  of.timer = *std::move(timer);
  of.timer->start(event::Seconds(decision.delay));
  of.task->kill_left();
  tasks_.call_exit(*of.task);
}

void ShellRestart::started(const task::Task& task) {
  const auto rank = static_cast<Rank>(task.rank());
  requests_.started(rank);
  rules_.forget_signals(rank);
  kept_.erase(rank);
  auto late = moving_.coming.extract(rank);
  if (late.empty()) return;
  for (int signum : late.mapped()) tasks_.kill(signum, value::Idset::range(rank, rank));
}

// ---- the start, or none --------------------------------------------------------------------------

bool ShellRestart::is_due() const {
  if (together_) return together_->is_due();
  return std::any_of(kept_.begin(), kept_.end(), [](const auto& each) { return each.second.state == State::due; });
}

Result<void> ShellRestart::start_due(const std::function<void()>& wait_for_holds) {
  wait_for_holds();  // for what plugins do after the end of a task, such as its epilog
  if (host_.ending()) return {};
  // One that has begun meanwhile still waits for the ends of tasks.
  if (together_) return together_->is_due() ? start_together(wait_for_holds) : Result<void>();
  value::Idset ranks;
  for (auto& [rank, each] : kept_) {
    if (each.state != State::due) continue;
    ranks.insert(rank);
    each.state = State::starting;
    tasks_.renew(each.task->local_id(), each.attempt, each.restarts);
  }
  if (ranks.empty()) return {};
  plugin::Call call("shell.restart");
  call.in = {{"ranks", ranks.str()}, {"all", false}};
  TRY(host_.stack().call(call));
  wait_for_holds();
  if (host_.ending() || together_ || shrink_.leaves()) return {};
  return start_tasks();
}

Result<void> ShellRestart::start_tasks() {
  is_starting_ = true;
  Result<void> started = tasks_.start();
  is_starting_ = false;
  std::erase_if(kept_, [](const auto& each) { return each.second.state == State::starting; });  // could not start
  if (together_) together_->end_tasks(grace_);
  return started;
}

// It is not started again, and what it ended with counts.
void ShellRestart::drop(Rank rank) {
  auto node = kept_.extract(rank);
  KeptEnd& kept = node.mapped();
  kept.task->set_starts_again(false);
  if (kept.state == State::asked) {
    before_answer_.emplace(rank, kept.record);
    return tasks_.end_for_good(*kept.task);
  }
  tasks_.record_end(rank, kept.record);
}

void ShellRestart::drop_all() {
  orders_.drop_all();
  while (!kept_.empty()) drop(kept_.begin()->first);
  together_.reset();
}

}  // namespace nacre::core
