// SPDX-License-Identifier: Apache-2.0
#include "exits/job_end.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/invariant.hpp"
#include "value/wait_status.hpp"

namespace nacre::exits {
namespace {

constexpr int kLeastFailure = 1;

}  // namespace

Work work_for(const TaskProgress& tasks, bool for_all) {
  if (!tasks.started) return Work::starting;
  if (tasks.over) return Work::over;
  return tasks.running || for_all ? Work::running : Work::elsewhere;
}

Action JobEnd::raised(Cause cause) {
  if (is_ending() || agreed_) return Action::nothing;
  local_ = std::move(cause);
  return Action::end;
}

Action JobEnd::ordered(Cause cause) {
  if (cause_ || agreed_) return Action::nothing;
  bool was_ending = is_ending();
  cause_ = std::move(cause);
  INVARIANT(is_ending());
  return was_ending ? Action::nothing : Action::end;
}

Action JobEnd::signalled(int signum, double now, Work work) {
  if (signum == SIGINT) return interrupted(now, work);
  if (is_ending() || agreed_) return Action::nothing;
  switch (work) {
    case Work::running: return Action::pass_on;
    case Work::elsewhere: return Action::nothing;
    case Work::starting:
    case Work::over: break;
  }
  return Action::end;
}

std::string JobEnd::interrupt_text(std::uint64_t tasks, bool may_leave) {
  return fmt::format("interrupt: passed on to the {} that run{}; a second one within {:g} s ends the job{}",
                     tasks == 1 ? "task" : fmt::format("{} tasks", tasks), tasks == 1 ? "s" : "", kInterruptWindow,
                     may_leave ? ", and Ctrl-Z leaves it, which then goes on" : "");
}

// A user who interrupts a job that is being ended does not want to wait for it.
Action JobEnd::interrupted(double now, Work work) {
  if (agreed_) return Action::nothing;
  if (is_ending()) {
    is_killed_ = true;
    return Action::kill;
  }
  bool again = interrupted_at_ && now - *interrupted_at_ <= kInterruptWindow;
  interrupted_at_ = now;
  if (again || work == Work::starting || work == Work::over) return Action::end;
  return work == Work::running ? Action::pass_on : Action::nothing;
}

Action JobEnd::cut_off(std::string why) {
  if (std::exchange(is_cut_off_, true) || agreed_) return Action::nothing;
  if (!local_) local_ = Cause{std::move(why), std::nullopt, 0};
  is_killed_ = true;
  return Action::kill;
}

void JobEnd::agreed(int code) {
  if (!agreed_) agreed_ = code;
}

void JobEnd::left() {
  agreed(0);
  is_killed_ = true;
}

int JobEnd::code(const Outcomes& outcomes, const Policy& policy) const {
  if (agreed_) return *agreed_;
  if (auto code = fixed(outcomes, policy)) return *code;
  const Outcomes all = known(outcomes);
  // The first task that has failed by itself is the first, though others were ended before.
  bool is_first = least() == 0 && policy.kind() == Policy::Kind::first;
  if (is_first && first_ && policy.is_failure(first_->record)) return policy.code_of(first_->record);
  return std::max(policy.code(is_first ? but_from_outside(all) : all), least());
}

std::optional<int> JobEnd::fixed(const Outcomes& outcomes, const Policy& policy) const {
  const auto& why = cause();
  if (why && why->deciding() == nullptr && why->code) return failure_code(*why->code);
  return least() == 0 ? cancelled(known(outcomes), policy) : std::nullopt;
}

int JobEnd::least() const {
  const auto& why = cause();
  bool is_by_tasks = !is_ending() || (why && (why->deciding() != nullptr || why->over_time));
  return is_by_tasks ? 0 : kLeastFailure;
}

// Adds the end of the task that has ended the job. If that task could not be started, the tasks that were not tried
// any more count as not started, too.
Outcomes JobEnd::known(const Outcomes& outcomes) const {
  const auto& why = cause();
  if (!why || why->deciding() == nullptr) return outcomes;
  const TaskEnd& end = *why->deciding();
  Outcomes out;
  for (const auto& [record, ranks] : outcomes.in_order()) {
    bool was_not_tried = record == Record::victim({}) && end.record.kind() == Record::Kind::not_started;
    out.add(ranks, was_not_tried ? end.record : record);
  }
  out.add(value::Idset::range(end.rank, end.rank), end.record);
  return out;
}

bool JobEnd::ended_from_outside(const Record& record) const {
  return record.kind() == Record::Kind::ended && record.status()->is_signal() &&
         sent_.contains(record.status()->signal());
}

Outcomes JobEnd::but_from_outside(const Outcomes& outcomes) const {
  Outcomes out;
  for (const auto& [record, ranks] : outcomes.in_order()) {
    if (!ended_from_outside(record)) out.add(ranks, record);
  }
  return out;
}

std::optional<int> JobEnd::cancelled(const Outcomes& outcomes, const Policy& policy) const {
  std::optional<int> code;
  for (const auto& [record, ranks] : outcomes.in_order()) {
    if (!policy.is_failure(record)) continue;
    if (!ended_from_outside(record)) return {};
    code = std::max(code.value_or(0), record.code());
  }
  return code;
}

Cause ended_by_signal(int signum, std::uint32_t shell) {
  std::string how = signum == SIGINT ? "interrupted" : fmt::format("ended by {}", value::signal_name(signum));
  return {std::move(how), value::kSignalBase + signum, shell};
}

}  // namespace nacre::exits
