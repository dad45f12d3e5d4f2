// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/failure_report.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "base/text.hpp"
#include "event/clock.hpp"

namespace nacre::plugins {
namespace {

using Rank = value::Idset::Id;

constexpr const char* kAsk = "exit-report.ask";      // announcement: the ranks
constexpr const char* kFacts = "exit-report.facts";  // announcement: facts of one task, JSON
constexpr const char* kReportHold = "exit-report";
constexpr double kSoon = 0.05;  // seconds between failures of which either may have been the first
constexpr event::Seconds kLookAgain{0.02};
constexpr event::Seconds kMostDrain{
    0.5};  // for the output of a task to end, which a process that it left may hold open
constexpr event::Seconds kMostAnswerTime{2.0};  // for answers
constexpr std::size_t kMostEvents = 64;
constexpr std::size_t kMostFailures = 256;  // whose times are kept

Json letter_of(const exits::Record& record) { return record.str().substr(0, 1); }

}  // namespace

void FailureReport::serve() {
  heard_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kAsk) answer(bytes);
    if (topic == kFacts && host_.job().shell_rank == 0) take(bytes);
  });
}

// ---- what the leader learns -------------------------------------------------------------------

// Not what a signal to all tasks has ended, from outside.
bool FailureReport::is_failure(const exits::Record& record) const {
  if (!host_.exit_policy().is_failure(record)) return false;
  bool by_itself = record.kind() == exits::Record::Kind::ended;
  return !by_itself || !record.status()->is_signal() || !host_.sent_to_tasks(record.status()->signal());
}

void FailureReport::tasks_ended(const value::Idset& ranks, const exits::Record& record, double time) {
  if (ranks.empty() || !is_failure(record)) return;
  Rank rank = *ranks.first();
  bool is_new = representatives_.emplace(record.str(), rank).second;
  if (!first_) first_ = exits::TaskEnd{rank, record};
  if (record.kind() == exits::Record::Kind::ended && failures_.size() < kMostFailures)
    failures_.emplace_back(time, ranks);
  if (!is_new) return;
  note("failed", {{"ranks", ranks.str()}, {"record", record.str()}}, time);
  if (record.kind() != exits::Record::Kind::lost) ask(rank);
}

bool FailureReport::has_news() const {
  return std::any_of(representatives_.begin(), representatives_.end(), [](const auto& each) {
    auto record = exits::Record::parse(each.first);
    if (!record || record->status() == value::WaitStatus::killed(SIGPIPE)) return false;
    return record->kind() == exits::Record::Kind::ended || record->kind() == exits::Record::Kind::over_time;
  });
}

void FailureReport::note(std::string_view event, Json what, double time) {
  if (timeline_.size() == kMostEvents) return;
  what["time"] = time;
  what["event"] = event;
  timeline_.push_back(std::move(what));
}

void FailureReport::ask(Rank rank) {
  if (asked_.contains(rank) || asked_.size() >= kMostAsked) return;
  asked_.insert(rank);
  waited_for_.insert(rank);
  if (!host_.announce(kAsk, value::Idset::range(rank, rank).str())) settle(rank);
}

void FailureReport::lost(std::uint32_t shell) {
  if (shell >= host_.job().shells()) return;
  for (Rank rank : (waited_for_ & host_.job().taskmap.ranks_on(shell)).ids()) settle(rank);
}

void FailureReport::settle(Rank rank) {
  waited_for_.remove(rank);
  if (!waited_for_.empty() || !std::exchange(holds_, false)) return;
  finish_timer_.reset();
  static_cast<void>(host_.release(kReportHold));
}

void FailureReport::take(std::string_view text) {
  auto facts = parse_json(text);
  if (!facts || !facts->is_object()) return;
  auto named = facts->find("rank");
  if (named == facts->end() || !named->is_number_unsigned()) return;
  auto rank = named->get<Rank>();
  if (!asked_.contains(rank)) return;
  for (const char* text_member : {"stderr", "stdout"}) {
    auto member = facts->find(text_member);
    if (member != facts->end() && !member->is_string()) facts->erase(member);
  }
  known_.insert_or_assign(rank, *std::move(facts));
  settle(rank);
}

Result<void> FailureReport::finish() {
  if (auto end = host_.ended_by(); end && is_failure(end->record)) ask(end->rank);
  if (waited_for_.empty()) return {};
  finish_timer_ = TRY(event::Timer::create(host_.loop(), [this] {
    waited_for_ = {};
    settle(0);
  }));
  finish_timer_->start_grace(kMostAnswerTime);
  host_.hold(kReportHold);
  holds_ = true;
  return {};
}

// ---- what a task's own shell answers ------------------------------------------------------------

void FailureReport::answer(std::string_view text) {
  auto ranks = value::Idset::parse(text);
  if (!ranks) return;
  for (const auto& task : host_.tasks()) {
    if (ranks->contains(task->rank())) asked_here_.emplace(task.get(), event::clock_now() + kMostDrain);
  }
  answer_if_complete();
}

void FailureReport::answer_if_complete() {
  auto now = event::clock_now();
  for (auto each = asked_here_.begin(); each != asked_here_.end();) {
    const task::Task& task = *each->first;
    if (now < each->second && !facts_.is_complete(task)) {
      ++each;
      continue;
    }
    each = asked_here_.erase(each);
    static_cast<void>(host_.announce(kFacts, dump_json(facts_.of(task))));  // who is cut off need not be heard
  }
  answer_timer_.reset();
  if (asked_here_.empty()) return;
  auto timer = event::Timer::create(host_.loop(), [this] { answer_if_complete(); });
  if (!timer) return;
  answer_timer_ = *std::move(timer);
  answer_timer_->unref();
  answer_timer_->start(kLookAgain);
}

// ---- the report ---------------------------------------------------------------------------------

Json FailureReport::facts_of(Rank rank, const exits::Record& record) const {
  auto known = known_.find(rank);
  Json out = known != known_.end() ? known->second : Json::object();
  out["rank"] = rank;
  out["record"] = record.str();
  out["kind"] = letter_of(record);
  if (record.status())
    out["value"] = record.status()->is_signal() ? record.status()->signal() : record.status()->exit_code();
  out["try"] = 1;
  auto node = host_.job().taskmap.node_of(rank);
  if (node && *node < host_.job().shells()) {
    out["shell"] = *node;
    out["host"] = host_.job().resources.nodes[*node].hostname;
  }
  return out;
}

Json FailureReport::cause(const Json& end) const {
  auto task = host_.ended_by();
  Json out = Json::object();
  if (task && is_failure(task->record))
    out = facts_of(task->rank, task->record);
  else if (first_)
    out = facts_of(first_->rank, first_->record);
  if (end.contains("cause")) out["message"] = end["cause"];
  if (!first_) return out;
  value::Idset others = at_the_time_of(out.value("rank", Rank{0}));
  int value = out.value("value", 0);
  bool may_be_victim = out["kind"] == "s" && (value == SIGABRT || value == SIGPIPE);
  out["certain"] = others.empty() && !may_be_victim;
  if (!others.empty()) out["after"] = others.str();
  return out;
}

// The others that have failed by themselves so soon before or after it that either may have been the first.
value::Idset FailureReport::at_the_time_of(Rank rank) const {
  auto its = std::find_if(failures_.begin(), failures_.end(),
                          [&](const auto& each) { return each.second.contains(rank); });
  value::Idset out;
  if (its == failures_.end()) return out;
  for (const auto& [time, ranks] : failures_) {
    if (std::abs(time - its->first) <= kSoon) out = out | ranks;
  }
  out.remove(rank);
  return out;
}

std::string FailureReport::last_line_of(Rank rank) const {
  auto known = known_.find(rank);
  std::string text = known != known_.end() ? known->second.value("stderr", "") : "";
  std::string_view lines = trim(text);
  return std::string(lines.substr(lines.rfind('\n') + 1));
}

Json FailureReport::make(const Json& end) const {
  const job::Job& job = host_.job();
  Json classes = Json::array();
  Json others = Json::array();
  Json cause = this->cause(end);
  const Json tasks = end.value("tasks", Json::object());
  for (const auto& [text, ranks] : tasks.items()) {
    Json each{{"record", text}, {"ranks", ranks}};
    auto known = representatives_.find(text);
    if (known != representatives_.end()) {
      if (std::string line = last_line_of(known->second); !line.empty()) each["last"] = std::move(line);
      auto record = exits::Record::parse(text);
      if (record && known_.contains(known->second) && cause.value("rank", Rank{0}) != known->second)
        others.push_back(facts_of(known->second, *record));
    }
    classes.push_back(std::move(each));
  }
  return {{"version", 1},
          {"job", {{"id", job.id.f58()}, {"name", job.name()}, {"tasks", job.tasks()}, {"shells", job.shells()}}},
          {"exit", end.value("exit", Json::object())},
          {"cause", std::move(cause)},
          {"classes", std::move(classes)},
          {"others", std::move(others)},
          {"timeline", timeline_}};
}

}  // namespace nacre::plugins
