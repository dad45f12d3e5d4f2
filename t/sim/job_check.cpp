// SPDX-License-Identifier: Apache-2.0
#include "job_check.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "job_elastic.hpp"

namespace nacre::sim {
namespace {

constexpr Time kMargin = 5 * kSecond;        // for what is under way
constexpr Time kMostChange = 120 * kSecond;  // for restarts, and for each order
constexpr int kSignalBase = 128;
constexpr int kLowByte = 0xff;

// Of a record's text: what it counts as.
int counted(const std::string& record) {
  switch (record.at(0)) {
    case 'x':
    case 'f': return std::stoi(record.substr(1));
    case 's': return kSignalBase + std::stoi(record.substr(1));
    case 'l': return 1;
    default: return 0;
  }
}

// Of a failure, as exit(3) takes it, but never 0.
int as_failure(int code) {
  if (code == 0) return 1;
  return (code & kLowByte) == 0 ? kLowByte : code & kLowByte;
}

}  // namespace

// ---- what was done, and what the shells do -------------------------------------------------

void JobCheck::crashed(Id shell) {
  harmed(shell);
  if (shell != 0 || leader_crashed_) return;
  leader_crashed_ = world_.now;
  for (Id id = 0; id < shells_.size(); ++id) {
    const auto& node = world_.hosts[id].node;
    if (node && node->applied() > 0) had_entries_.insert(id);
  }
}

void JobCheck::failed(Id /*shell*/, const exits::Cause& cause, bool must) {
  happened_.push_back({cause, must, world_.now});
}

void JobCheck::logged(const Entry& entry) {
  require(!code_, "an entry after END");
  elastic_.logged(entry);
  if (const auto* view = std::get_if<View>(&entry.body)) {
    for (Id id : view->dead.ids()) {
      // Where the leader itself stood still, those who need it to reach their parents could not.
      bool is_there = world_.lives(id) && !harmed_.contains(id) && !harmed_.contains(0);
      require(!is_there, fmt::format("{} is declared dead, and nothing was done to it", id));
      dead_.insert(id);
    }
  } else if (const auto* end = std::get_if<End>(&entry.body)) {
    code_ = static_cast<int>(end->code);
  } else if (const auto* statement = std::get_if<ExceptionEntry>(&entry.body)) {
    group::JobException raised = group::decode(*statement);
    if (raised.severity == 0 && !cause_) cause_ = raised;
  }
}

void JobCheck::decided(Id shell, const exits::Cause& cause) {
  require(cause_.has_value(), fmt::format("{} knows a cause, and the leader has none", shell));
  exits::Cause first{cause_->message, cause_->exit_code, cause_->origin};
  require(cause == first,
          fmt::format("{} takes '{}' for the cause, and it is '{}'", shell, cause.message, first.message));
}

void JobCheck::named(Id shell, const exits::Cause& cause) {
  require(shell == 0, fmt::format("{} names the cause, and does not lead", shell));
  named_.push_back(cause);
  bool has_happened = std::any_of(happened_.begin(), happened_.end(), [&](const Happened& each) {
    bool same_code = each.cause.code.has_value() == cause.code.has_value() &&
                     (!cause.code || as_failure(*each.cause.code) == as_failure(*cause.code));
    return same_code && each.cause.message == cause.message && each.cause.shell == cause.shell;
  });
  require(has_happened, fmt::format("'{}' is named, and has not happened", cause.message));
}

// A task that starts again may end for the same start as before: what the leader has had first counts.
void JobCheck::recorded(Id rank, std::uint32_t attempt, const std::string& record) {
  bool is_first = records_.emplace(std::pair(rank, attempt), record).second;
  require(is_first || plan_.changes, fmt::format("task {} ends twice", rank));
}

// All tasks have ended by then, but those of who is lost, or of who has been cut off and does not know. A shell
// that leaves, or cannot join, waits for none.
void JobCheck::entered(Id shell, Phase phase) const {
  if (phase != Phase::end || shells_[shell]->ending().state().is_cut_off()) return;
  JobElastic* elastic = shells_[shell]->elastic();
  if (elastic != nullptr && (elastic->removal().has_begun() || elastic->newcomer().is_joining())) return;
  for (Id id = 0; id < shells_.size(); ++id) {
    bool counts = world_.lives(id) && !dead_.contains(id) && !elastic_.left().contains(id);
    require(!counts || !shells_[id]->tasks().any_runs(),
            fmt::format("{} is past the tasks, and some run on {}", shell, id));
  }
}

void JobCheck::stepped(Id shell) const {
  const JobShell& each = *shells_[shell];
  auto learnt = each.departure().learnt();
  require(!learnt || learnt == code_, fmt::format("{} has another code than the log", shell));
  std::size_t count = 0;
  for (const auto& [record, ranks] : each.records().all().classes()) count += ranks.size();
  require(count == each.records().all().ranks().size(), fmt::format("at {} a task has two records", shell));
}

// ---- at the end ----------------------------------------------------------------------------

Time JobCheck::bound() const {
  constexpr int kHandlers = 14;
  Time handlers = kHandlers * (plan_.leisurely ? kSecond : 4 * kMs);
  Time longest{};
  for (const TaskPlan& each : plan_.tasks) longest = std::max(longest, each.runs);
  Time bound = longest;
  for (const Happened& each : happened_) {
    if (each.must) bound = std::min(bound, each.at);
  }
  // A signal is sent on, or ends the job, at any time.
  for (const Strike& each : plan_.strikes) bound = std::max(bound, std::min(each.at, longest));
  Time changes = plan_.changes ? kMostChange * static_cast<int>(1 + plan_.changes->orders.size()) : Time{};
  return bound + handlers + kGrace + kMargin + changes;
}

void JobCheck::at_the_end() const {
  check_ends();
  check_codes();
  check_records();
  elastic_.at_the_end(code_.has_value() && shells_[0]->process().is_over() && !shells_[0]->process().has_crashed());
}

void JobCheck::check_ends() const {
  bool calm = plan_.is_calm();
  Time bound = this->bound();
  for (Id id = 0; id < shells_.size(); ++id) {
    const JobShell& shell = *shells_[id];
    if (!is_live(id)) continue;
    require(shell.process().is_over(),
            fmt::format("{} does not end: it is in {}", id, name_of(shell.process().phase())));
    require(!shell.tasks().any_runs(), fmt::format("tasks run on {}, whose shell has ended", id));
    bool is_late = calm && shell.group().has_joined() && over_at_.at(id) > bound;
    require(!is_late, fmt::format("{} ends at {:.3f} s, and should by {:.3f}", id,
                                  static_cast<double>(over_at_.at(id).count()) / 1e6,
                                  static_cast<double>(bound.count()) / 1e6));
  }
  bool leader_only = leader_crashed_ && harmed_ == Idset::range(0, 0);
  if (!leader_only) return;
  for (Id id : had_entries_.ids()) {
    bool is_late = id != 0 && over_at_.at(id) > *leader_crashed_ + kMargin;
    require(!is_late, fmt::format("the leader has crashed, and {} goes on for long", id));
  }
}

// By the table of nacre-exits(7).
int JobCheck::by_policy() const {
  using Kind = exits::Policy::Kind;
  const exits::Policy& policy = plan_.policy;
  int largest = 0;
  int first = 0;
  int main = 1;
  bool all = true;
  for (const auto& [record, ranks] : shells_[0]->records().all().in_order()) {
    bool is_victim = record.str().at(0) == 'c';
    int code = counted(record.str());
    if (record.str().at(0) == 'x' && policy.ok().contains(static_cast<Id>(code))) code = 0;
    largest = std::max(largest, code);
    if (first == 0) first = code;
    if (ranks.contains(policy.main())) main = is_victim ? 1 : code;
    all = all && !is_victim && code == 0;
  }
  switch (policy.kind()) {
    case Kind::max: return largest;
    case Kind::main: return main;
    case Kind::all: return all ? 0 : 1;
    case Kind::main_and_all: return main != 0 ? main : all ? 0 : 1;
    case Kind::first: return first;
  }
  return -1;
}

int JobCheck::expected_code() const {
  if (cause_ && cause_->exit_code) return as_failure(*cause_->exit_code);
  int code = shells_[0]->has_given_up() ? 0 : by_policy();
  return cause_ ? std::max(code, 1) : code;
}

void JobCheck::check_codes() const {
  if (code_) {
    require(*code_ == expected_code(), fmt::format("the job's code is {}, not {}", *code_, expected_code()));
    require(named_.size() == (cause_ ? 1 : 0), fmt::format("{} causes are named", named_.size()));
    for (const Happened& each : happened_) {
      bool is_lost =
          (dead_ | elastic_.left()).contains(each.cause.shell) || !shells_[each.cause.shell]->group().has_joined();
      bool ends = cause_ && *code_ != 0;
      require(!each.must || is_lost || ends, fmt::format("'{}' does not end the job", each.cause.message));
    }
  }
  for (Id id = 0; id < shells_.size(); ++id) {
    const JobShell& shell = *shells_[id];
    if (!shell.process().exit_code()) continue;
    int code = *shell.process().exit_code();
    if (shell.elastic() != nullptr && shell.elastic()->removal().is_over()) {
      require(code == 0, fmt::format("{} has left the job as planned, and exits with {}", id, code));
      continue;
    }
    require(id != 0 || code_, "the leader has ended without a code for the job");
    if (shell.departure().learnt() || id == 0) {
      require(code == *code_, fmt::format("{} exits with {}, and the job with {}", id, code, *code_));
      continue;
    }
    require(code != 0, fmt::format("{} exits with 0, and has not learnt how the job has ended", id));
    bool excused = !plan_.is_calm() || !shell.group().has_joined();
    require(excused, fmt::format("{} has not learnt the job's code", id));
  }
}

// Of a job that its leader has ended in order.
void JobCheck::check_records() const {
  const JobShell& leader = *shells_[0];
  if (!code_ || leader.has_given_up()) return;
  for (Id rank = 0; rank < plan_.tasks.size(); ++rank) {
    auto record = leader.records().all().of(rank);
    require(record.has_value(), fmt::format("task {} has no record", rank));
    std::string text = record->str();
    // Of the last start that counts.
    std::uint32_t attempt = plan_.changes ? leader.elastic()->replica().job().attempt_of(rank) : 1;
    auto made = records_.find({rank, attempt});
    std::string truth = made != records_.end() ? made->second : "c";
    bool is_gone = dead_.contains(plan_.tasks[rank].shell);
    for (Id shell : (dead_ | elastic_.left()).ids()) is_gone = is_gone || elastic_.has_had(shell, rank);
    if (plan_.changes)
      is_gone =
          is_gone || (dead_ | elastic_.left()).contains(*leader.elastic()->replica().job().taskmap.node_of(rank));
    bool lost = text == "l" && is_gone;
    bool unheard = (text == "c" || text == "g") && is_gone;
    require(text == truth || lost || unheard,
            fmt::format("the record of task {} is {}, and should be {}", rank, text, truth));
  }
  if (leader.process().is_over() && !leader.process().has_crashed()) shells_[0]->records().check_clients();
}

}  // namespace nacre::sim
