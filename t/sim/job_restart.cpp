// SPDX-License-Identifier: Apache-2.0
//
// How the tasks of a shell start again, as core/shell_restart.cpp and restart_orders.cpp.
#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "job_elastic.hpp"
#include "job_leader.hpp"

namespace nacre::sim {
namespace {

constexpr std::string_view kOrdered = "shell.restart-order";
constexpr std::string_view kSignalled = "signal";  // in place of the entry for it
constexpr std::string_view kRefused = "shell.restart-refused";
constexpr std::uint64_t kMostHeld = 20'000;  // microseconds that plugins hold up a start

double seconds_of(Time time) { return static_cast<double>(time.count()) / 1e6; }
Time time_of(double time) { return Time(static_cast<std::int64_t>(time * 1e6)); }

}  // namespace

Idset JobElastic::number_of(Rank rank, std::uint32_t attempt) const {
  auto number = elastic::Starts(job_.tasks()).number(rank, attempt);
  return Idset::range(number, number);
}

void JobElastic::started(Task& task) {
  task.since = world_.now;
  task.signalled = false;
  kept_.erase(task.rank);
  Witness::Start start{shell_.process().id(), task.rank, task.attempt};
  if (auto why = why_.find({task.rank, task.attempt}); why != why_.end()) {
    start.why = why->second.first;
    start.restart = why->second.second;
  }
  shell_.process().witness().started(start);
  coming_.remove(task.rank);
  if (!late_coming_.contains(task.rank)) return;
  late_coming_.remove(task.rank);
  signalled_late(task.rank);
}

void JobElastic::are_started() {
  is_starting_ = false;
  std::erase_if(kept_, [](const auto& each) { return each.second.state == State::starting; });  // could not start
  end_together();
}

// ---- an end of a task ------------------------------------------------------------------------

bool JobElastic::wants(const Task& task, bool is_ordered) const {
  exits::Record record = shell_.tasks().record_of(task);
  if (ending() || leaves_ || record.kind() != exits::Record::Kind::ended || task.signalled) return false;
  if (!is_ordered && !shell_.process().plan().policy.is_failure(record)) return false;
  return task.attempt < elastic::Starts(job_.tasks()).most();
}

bool JobElastic::keeps(Task& task) {
  using Scope = job::RestartOption::Scope;
  const Rank rank = task.rank;
  if (!changes().restarts) return false;
  bool is_ordered = ordered_.contains(rank);
  ordered_.remove(rank);
  if (together_ && !ending()) {
    keep_together(task);
    return true;
  }
  if (asks_for_node() && !ending()) {
    kept_.emplace(rank, Kept{&task, shell_.tasks().record_of(task), false, is_ordered});
    return true;
  }
  if (!wants(task, is_ordered)) return false;
  if (changes().scope == Scope::node && !shell_.tasks().records().ranks().empty()) return false;
  exits::Record record = is_ordered ? exits::Record::victim(task.status) : shell_.tasks().record_of(task);
  kept_.emplace(rank, Kept{&task, record, changes().scope == Scope::job, is_ordered});
  if (unsent_.empty()) shell_.process().later(Time{}, [this] { send(); });
  unsent_.push_back(rank);
  return true;
}

void JobElastic::send() {
  std::map<std::pair<bool, bool>, Message> messages;
  for (Rank rank : std::exchange(unsent_, {})) {
    auto kept = kept_.find(rank);
    if (kept == kept_.end() || kept->second.state != State::asked) continue;
    const Kept& each = kept->second;
    messages[{each.whole, each.ordered}].ends.push_back(
        {rank, each.task->attempt, each.record, seconds_of(world_.now - each.task->since)});
  }
  for (auto& [how, message] : messages) {
    message.shell = shell_.process().id();
    message.whole = how.first;
    message.ordered = how.second;
    announce(elastic::RestartMessage::kAsked, message.asked());
  }
}

// ---- in the order of the log -----------------------------------------------------------------

void JobElastic::announced(const std::string& topic, const std::string& bytes) {
  if (topic == "shell.replace") return moved(bytes);
  if (topic == "shell.restart-to-spare") return asked_for_spare(bytes);
  if (topic == kSignalled) return signalled_late(static_cast<Rank>(std::stoul(bytes)));
  if (topic == "shell.tasks-over") tasks_over_ = true;
  if (topic == elastic::kReadyTopic || topic == elastic::kGrownTopic || topic == "shell.shrink" ||
      topic == kOrdered || topic == kRefused || topic == elastic::kOfferTopic) {
    auto what = parse_json(bytes);
    require(what.has_value(), "an announcement is JSON");
    if (topic == kOrdered) return ordered(bytes);
    if (topic == "shell.shrink")
      return leaving(Idset::parse((*what)["shells"].get<std::string>()).value(),
                     time_of((*what)["grace"].get<double>()));
    if (topic == elastic::kGrownTopic) grown(elastic::Growth::parse(JsonAt::root(*what)).value());
    if (topic == elastic::kReadyTopic && !what->contains("error")) roster_.note_ready((*what)["shell"].get<Id>());
    if (leader_) leader_->announced(topic, *what);
  }
  if (topic != elastic::RestartMessage::kAsked && topic != elastic::RestartMessage::kAnswered) return;
  auto message = Message::parse(bytes, job_.shells());
  require(message.has_value(), message ? "" : "an announcement cannot be read: " + message.error().message);
  topic == elastic::RestartMessage::kAsked ? asked(*message) : answered(*message);
}

void JobElastic::asked(const Message& message) {
  if (message.ends.empty()) return leader_ ? leader_->answer_order() : void();
  if (!message.whole && changes().scope == job::RestartOption::Scope::node) return decided_together(message);
  bool is_mine = message.shell == shell_.process().id();
  elastic::Recovery::Alone decided = recovery_.decide(message);
  for (const Decision& each : decided.decisions) {
    if (leader_ && each.is_granted()) leader_->expect(each.ranks);
  }
  for (Rank rank : decided.fallen.ids()) {
    if (is_mine) refused(rank);
  }
  if (message.whole && decided.fallen.empty() && leader_) leader_->answer(message);
  for (const Decision& each : decided.decisions) {
    if (leader_ && each.is_granted()) leader_->restarted(each.ranks);
    for (Rank rank : each.ranks.ids()) {
      if (is_mine) each.is_granted() ? granted(rank, each) : refused(rank);
    }
  }
}

void JobElastic::answered(const Message& message) {
  if (!message.ends.empty()) return decided_together(message);
  if (leader_) leader_->order_came_back();
  if (shell_.ending().state().is_decided()) return;
  auto decision = recovery_.decide_order(message);
  if (!decision) return leader_ ? leader_->answer_order() : void();
  if (leader_) leader_->restarted(decision->together);
  if (leader_) leader_->expect(decision->together);
  begin_together(*decision);
}

void JobElastic::decided_together(const Message& message) {
  Decision decision = recovery_.decide_together(message);
  const bool is_mine = message.shell == shell_.process().id();
  take(decision.places.moves);
  if (decision.is_granted()) {
    if (leader_) leader_->restarted(decision.together);
    if (leader_) leader_->expect(decision.together);
    if (message.whole || is_mine) begin_together(decision);
  } else if (is_mine) {
    Idset ranks;
    for (const auto& each : message.ends) ranks.insert(each.rank);
    for (const auto& [rank, kept] : kept_) {
      if (!message.whole && kept.state == State::asked && !kept.whole) ranks.insert(rank);
    }
    for (Rank rank : ranks.ids()) refused(rank);
  }
}

void JobElastic::refused(Rank rank) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end() || kept->second.state != State::asked) return;
  Task* task = kept->second.task;
  kept_.erase(kept);
  shell_.tasks().end_for_good(*task);
}

void JobElastic::granted(Rank rank, const Decision& decision) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end()) {  // this shell has given it up meanwhile
    if (auto before = before_answer_.extract(rank)) shell_.tasks().record(rank, before.mapped());
    return;
  }
  Kept& of = kept->second;
  of.attempt = decision.attempt;
  of.state = State::waiting;
  shell_.process().later(time_of(decision.delay), [this, rank, attempt = decision.attempt] {
    auto waits = kept_.find(rank);
    if (waits != kept_.end() && waits->second.state == State::waiting && waits->second.attempt == attempt)
      wait_is_over(rank);
  });
  shell_.call(Place::task_exit);
}

// ---- the start, or none ------------------------------------------------------------------------

// As Shell::run_tasks() and stand_by().
bool JobElastic::may_finish() {
  if (shell_.tasks().any_runs() && ending()) return false;
  bool is_due = together_ ? together_->is_due : std::any_of(kept_.begin(), kept_.end(), [](const auto& each) {
    return each.second.state == State::due;
  });
  bool takes_over = !due_.empty() && !leaves_;
  if (!ending() && (is_due || (takes_over && !together_))) {
    start_due();
    return false;
  }
  if (shell_.tasks().any_runs() || (!ending() && (!kept_.empty() || together_ || takes_over))) return false;
  bool is_idle = changes().restarts && job_.taskmap.tasks_on(shell_.process().id()) == 0;
  bool stands_by = job_.is_spare(shell_.process().id()) || changes().takes_any || changes().to_spare || is_idle;
  bool is_over = tasks_over_ || (leader_ && leader_->tasks_left() == 0) || leaves_ || ending();
  if (stands_by && !is_over) return false;
  finished_ = true;
  return true;
}

void JobElastic::start_due() {
  shell_.process().hold(kMostHeld, [this] {
    if (ending()) return;
    if (together_) return together_->is_due ? start_together() : void();
    bool is_due =
        std::any_of(kept_.begin(), kept_.end(), [](const auto& each) { return each.second.state == State::due; });
    if (is_due) return start_alone();
    if (!due_.empty() && !leaves_) take_over();
  });
}

void JobElastic::start_alone() {
  for (auto& [rank, each] : kept_) {
    if (each.state != State::due) continue;
    each.state = State::starting;
    auto why = each.ordered ? Witness::Why::ordered : Witness::Why::automatic;
    renew(*each.task, each.attempt, why, fmt::format("task {} try {}", rank, each.attempt));
  }
  shell_.process().hold(kMostHeld, [this] {
    if (!ending() && !together_ && !leaves_) start_tasks();
  });
}

void JobElastic::renew(Task& task, std::uint32_t attempt, Witness::Why why, const std::string& restart) {
  why_[{task.rank, attempt}] = {why, restart};
  shell_.tasks().renew(task, attempt);
}

void JobElastic::start_tasks() {
  is_starting_ = true;
  for (Task& each : shell_.tasks().list()) {
    if (!each.started && !ending()) shell_.tasks().take_up(each);
    if (shell_.process().is_over()) return;
  }
  are_started();
}

// It is not started again, and what it ended with counts.
void JobElastic::drop(Rank rank) {
  auto node = kept_.extract(rank);
  Kept& kept = node.mapped();
  if (kept.state != State::asked) return shell_.tasks().record(rank, kept.record);
  before_answer_.emplace(rank, kept.record);
  shell_.tasks().end_for_good(*kept.task);
}

void JobElastic::drop_all() {
  ordered_ = {};
  while (!kept_.empty()) drop(kept_.begin()->first);
  together_.reset();
}

void JobElastic::signalled() {
  bool is_node = together_ && together_->is_node;
  if (together_ && !is_node && !ending()) {
    exits::Cause cause{"a signal, while the job was to start again", 1, shell_.process().id()};
    shell_.process().witness().failed(shell_.process().id(), cause, false);
    shell_.ending().end_job(cause, "exec");
    return;
  }
  late_coming_.insert(coming_);
  bool ends_node = false;
  for (Task& each : shell_.tasks().list()) {
    if (each.running) each.signalled = true;
    auto kept = kept_.find(each.rank);
    bool is_kept = kept != kept_.end();
    // What has had it goes on to a spare with it.
    if (is_kept && (kept->second.state == State::moving || (is_node && together_->moves))) {
      late_.insert(each.rank);
      continue;
    }
    bool waits = is_kept && kept->second.state < State::starting;
    bool starts = is_kept && kept->second.state == State::starting;
    ends_node = ends_node || (is_node && !starts) || (waits && asks_for_node());
    if (waits && !ends_node) drop(each.rank);
  }
  if (ends_node) drop_node();
}

// ---- by nacre restart ----------------------------------------------------------------------------

void JobElastic::ordered(const std::string& bytes) {
  if (shell_.ending().state().is_decided()) return;
  Json what = parse_json(bytes).value();
  bool is_whole = !what.contains("ranks") || changes().scope == job::RestartOption::Scope::job;
  if (is_whole) return leader_ ? leader_->answer_order() : void();
  Idset ranks = Idset::parse(what["ranks"].get<std::string>()).value();
  std::map<std::string, Idset> refused;
  Idset ended, here;
  for (Task& task : shell_.tasks().list()) {
    here.insert(task.rank);
    if (!ranks.contains(task.rank) || ordered_.contains(task.rank)) continue;
    if (kept_.contains(task.rank) || together_) {
      refused["it waits for its next start"].insert(task.rank);
    } else if (!task.running) {
      refused[task.ended ? "it has ended" : "it has not been started yet"].insert(task.rank);
    } else if (leaves_) {
      refused["its shell is about to leave the job"].insert(task.rank);
    } else {
      ended.insert(task.rank);
      task.signalled = false;
    }
  }
  Idset coming = (ranks & job_.taskmap.ranks_on(shell_.process().id())) - here;  // of a lost shell, to this one
  if (!coming.empty()) refused["it has not been started yet"].insert(coming);
  for (const auto& [why, which] : refused) refuse(which, why);
  if (ended.empty()) return;
  ordered_ = ordered_ | ended;
  shell_.tasks().kill(SIGTERM, ended);
  shell_.process().later(kGrace, [this, ended] { shell_.tasks().kill(SIGKILL, ended & ordered_); });
}

void JobElastic::refuse(const Idset& ranks, const std::string& why) {
  announce(kRefused, dump_json({{"ranks", ranks.str()}, {"why", why}}));
}

}  // namespace nacre::sim
