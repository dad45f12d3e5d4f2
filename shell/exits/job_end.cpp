// SPDX-License-Identifier: Apache-2.0
#include "exits/job_end.hpp"

#include "base/invariant.hpp"
#include "base/json.hpp"

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

// A user who interrupts a job that is being ended does not want to wait.
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
  const int plain = plain_code(outcomes, policy);
  const auto failure = plain != 0 ? failure_class(outcomes, policy) : std::nullopt;
  return failure ? policy.classes().code_of(*failure).value_or(plain) : plain;
}

int JobEnd::plain_code(const Outcomes& outcomes, const Policy& policy) const {
  if (auto code = fixed(outcomes, policy)) return *code;
  const Outcomes all = known(outcomes);
  // The first task that has failed by itself counts as the first, even if others were ended before.
  bool is_first = least() == 0 && policy.kind() == Policy::Kind::first;
  if (is_first && first_ && policy.is_failure(first_->record)) return policy.code_of(first_->record);
  return std::max(policy.code(is_first ? but_from_outside(all) : all), least());
}

std::optional<FailureClass> class_of_type(std::string_view type) {
  if (type == "node-failure" || type == "health") return FailureClass::host;
  if (type == "timeout" || type == "hang-watch" || type == "no-progress") return FailureClass::no_progress;
  return std::nullopt;
}

namespace {

std::optional<Record> first_failure(const JobEnd& end, const Outcomes& outcomes, const Policy& policy);

FailureClass class_of_record(const Record& record) {
  if (record.kind() == Record::Kind::lost) return FailureClass::host;
  return record.kind() == Record::Kind::over_time ? FailureClass::no_progress : FailureClass::user;
}

}  // namespace

std::optional<FailureClass> JobEnd::failure_class(const Outcomes& outcomes, const Policy& policy) const {
  const auto& why = cause();
  if (is_cut_off_) return FailureClass::host;
  if (why && why->failure) return why->failure;
  if (why && why->task) return class_of_record(why->task->record);
  if (why && why->code) return std::nullopt;
  const Outcomes all = known(outcomes);
  if (cancelled(all, policy)) return std::nullopt;
  auto first = first_failure(*this, all, policy);
  return first ? std::optional(class_of_record(*first)) : std::nullopt;
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
// any more also count as not started.
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
  return record.kind() == Record::Kind::ended && sent_.contains(record.status()->ending_signal());
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

// ---- summary ----------------------------------------------------------------------------

namespace {

// The end of the task that failed first: by evidence, or the cause's task, or else the first failure that came.
std::optional<Record> first_failure(const JobEnd& end, const Outcomes& outcomes, const Policy& policy) {
  if (end.first() && policy.is_failure(end.first()->record)) return end.first()->record;
  if (end.cause() && end.cause()->deciding() != nullptr) return end.cause()->deciding()->record;
  auto classes = outcomes.in_order();
  auto first = std::find_if(classes.begin(), classes.end(), [&](const auto& each) {
    return policy.is_failure(each.first) && !end.ended_from_outside(each.first);
  });
  return first != classes.end() ? std::optional(first->first) : std::nullopt;
}

std::string largest(const Outcomes& outcomes, const Policy& policy, int code) {
  for (const auto& [record, ranks] : outcomes.in_order()) {
    if (policy.code_of(record) == code) return fmt::format("task {}", ranks.short_str());
  }
  return "the job was ended before its time";
}

std::string reason(const JobEnd& end, const Outcomes& outcomes, const Policy& policy, int code) {
  if (code == 0) return "success";
  auto failure = end.failure_class(outcomes, policy);
  if (failure && policy.classes().code_of(*failure) == code)
    return fmt::format("exit-class {}", ExitClasses::name_of(*failure));
  if (end.cancelled(outcomes, policy) == code) return "a signal to all tasks";
  if (end.cause() && end.cause()->code && end.cause()->deciding() == nullptr) return "the cause";
  auto first = first_failure(end, outcomes, policy);
  bool is_first = first && policy.code_of(*first) == code;
  auto main = outcomes.of(policy.main());
  bool is_main = main && policy.code_of(*main) == code;
  switch (policy.kind()) {
    case Policy::Kind::max: return is_first ? "the cause" : largest(outcomes, policy, code);
    case Policy::Kind::first: return is_first ? "the first task that failed" : largest(outcomes, policy, code);
    case Policy::Kind::all: return "not all tasks succeeded";
    case Policy::Kind::main:
    case Policy::Kind::main_and_all: break;
  }
  if (is_main) return fmt::format("task {}, the main rank", policy.main());
  return policy.kind() == Policy::Kind::main ? "the main rank has no exit code of its own"
                                             : "not all tasks succeeded";
}

Json rule(const JobEnd& end, const Outcomes& outcomes, const Policy& policy) {
  Json out{{"main", policy.main()}};
  if (!policy.ok().empty()) out["ok"] = policy.ok().str();
  if (auto first = first_failure(end, outcomes, policy)) out["first"] = first->str();
  if (end.least() > 0) out["least"] = end.least();
  auto failure = end.failure_class(outcomes, policy);
  bool is_classed = failure && policy.classes().code_of(*failure);
  if (end.fixed(outcomes, policy) || is_classed) out["fixed"] = true;
  return out;
}

}  // namespace

Json summary(const JobEnd& end, const Outcomes& reported, const Policy& policy, int code) {
  Outcomes outcomes = end.known(reported);
  Json tasks = Json::object();
  for (const auto& [record, ranks] : outcomes.classes()) tasks[record.str()] = ranks.str();
  Json out{{"exit",
            {{"code", code},
             {"policy", Policy::name_of(policy.kind())},
             {"main", policy.main()},
             {"by", reason(end, outcomes, policy, code)}}},
           {"tasks", std::move(tasks)},
           {"rule", rule(end, outcomes, policy)}};
  if (end.cause()) out["cause"] = end.cause()->message;
  return out;
}

}  // namespace nacre::exits
