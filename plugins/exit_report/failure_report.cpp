// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/failure_report.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "event/clock.hpp"
#include "exits/report_text.hpp"

namespace nacre::plugins {
namespace {

using Rank = value::Idset::Id;

constexpr const char* kAsk = "exit-report.ask";      // announcement: the ranks
constexpr const char* kFacts = "exit-report.facts";  // announcement: facts of one task, JSON
constexpr const char* kLeft = "exit-report.left";    // announcement: processes that have outlived their tasks, JSON
constexpr const char* kReportHold = "exit-report";
constexpr double kSoon = 0.05;  // seconds between failures of which either may have been the first
constexpr event::Seconds kLookAgain{0.02};
constexpr event::Seconds kMostDrain{
    0.5};  // for the output of a task to end, which a process that it left may hold open
constexpr event::Seconds kReportAnswerTime{2.0};  // for answers
constexpr std::size_t kMostEvents = 64;
constexpr std::size_t kMostFailures = 256;  // whose times are kept
constexpr std::size_t kMostLeft = 64;       // processes
constexpr std::size_t kMostLeftHere = 16;   // of one shell

bool is_victim(const exits::Record& record) { return record.kind() == exits::Record::Kind::victim; }

// How `rank` has ended, by the summary of the job.
std::optional<exits::Record> record_in(const Json& end, Rank rank) {
  const Json tasks = end.value("tasks", Json::object());
  for (const auto& [text, ranks] : tasks.items()) {
    auto of = value::Idset::parse(ranks.get<std::string>());
    if (!of || !of->contains(rank)) continue;
    auto record = exits::Record::parse(text);
    return record ? std::optional(*record) : std::nullopt;
  }
  return {};
}

Json letter_of(const exits::Record& record) { return record.str().substr(0, 1); }

}  // namespace

void FailureReport::serve() {
  heard_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kAsk) answer(bytes);
    if (topic == kFacts && host_.job().shell_rank == 0) take(bytes);
    if (topic == kLeft && host_.job().shell_rank == 0) take_left(bytes);
  });
  digests_.serve();
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
  bool has_run = record.kind() == exits::Record::Kind::ended;
  if (has_run) failed_ += ranks.size();
  if (has_run && failures_.size() < kMostFailures) failures_.emplace_back(time, ranks);
  if (!is_new) return;
  note("failed", {{"ranks", ranks.str()}, {"record", record.str()}}, time);
  if (record.kind() != exits::Record::Kind::lost) ask(rank);
}

bool FailureReport::has_news() const {
  if (auto end = host_.ended_by(); end && is_victim(end->record)) return true;
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
  let_go();
}

void FailureReport::let_go() {
  if (is_waiting() || !std::exchange(holds_, false)) return;
  finish_timer_.reset();
  static_cast<void>(host_.release(kReportHold));
}

void FailureReport::take_left(std::string_view text) {
  auto told = parse_json(text);
  if (!told || !told->is_object() || !told->contains("processes") || !(*told)["processes"].is_array()) return;
  for (Json& each : (*told)["processes"]) {
    if (left_.size() < kMostLeft)
      left_.push_back(std::move(each));
    else
      ++more_left_;
  }
  auto more = told->find("more");
  if (more != told->end() && more->is_number_unsigned()) more_left_ += more->get<std::uint64_t>();
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
  if (auto end = host_.ended_by(); end && (is_failure(end->record) || is_victim(end->record))) ask(end->rank);
  if (failed_ > 1) ask_for_digests();
  if (!is_waiting()) return {};
  finish_timer_ = TRY(event::Timer::create(host_.loop(), [this] {
    waited_for_ = {};
    waits_for_digests_ = false;
    let_go();
  }));
  finish_timer_->start_grace(kReportAnswerTime);
  host_.hold(kReportHold);
  holds_ = true;
  return {};
}

void FailureReport::ask_for_digests() {
  std::vector<std::string> records;
  for (const auto& [text, rank] : representatives_) {
    auto record = exits::Record::parse(text);
    if (record && record->kind() == exits::Record::Kind::ended) records.push_back(text);
  }
  waits_for_digests_ = true;
  digests_.ask(records, [this] {
    waits_for_digests_ = false;
    let_go();
  });
}

// ---- what a task's own shell answers ------------------------------------------------------------

void FailureReport::answer(std::string_view text) {
  auto ranks = value::Idset::parse(text);
  if (!ranks) return;
  for (const auto& task : host_.tasks()) {
    if (ranks->contains(task->rank()) && !task->starts_again())
      asked_here_.emplace(task.get(), event::clock_now() + kMostDrain);
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
    // A shell that is cut off need not report.
    static_cast<void>(host_.announce(kFacts, dump_json(facts_.of(task))));
  }
  answer_timer_.reset();
  if (asked_here_.empty()) return;
  auto timer = event::Timer::create(host_.loop(), [this] { answer_if_complete(); });
  if (!timer) return;
  answer_timer_ = *std::move(timer);
  answer_timer_->unref();
  answer_timer_->start(kLookAgain);
}

void FailureReport::left(const Json& processes) {
  const job::Job& job = host_.job();
  Json told{{"processes", Json::array()}};
  for (const Json& each : processes) {
    if (told["processes"].size() == kMostLeftHere) break;
    told["processes"].push_back(each);
    told["processes"].back()["shell"] = job.shell_rank;
    told["processes"].back()["host"] = job.resources.nodes[job.shell_rank].hostname;
  }
  if (processes.size() > kMostLeftHere) told["more"] = processes.size() - kMostLeftHere;
  static_cast<void>(host_.announce(kLeft, dump_json(told)));  // likewise
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
  out["try"] = host_.job().attempt_of(rank);
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
  else if (task && is_victim(task->record))
    out = facts_of(task->rank, record_in(end, task->rank).value_or(task->record));
  else if (first_)
    out = facts_of(first_->rank, first_->record);
  if (end.contains("cause")) out["message"] = end.at("cause");
  if (!out.contains("rank")) return out;
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

std::string FailureReport::last_line(Rank rank) const {
  auto known = known_.find(rank);
  return known != known_.end() ? exits::last_line_of(known->second.value("stderr", "")) : "";
}

// Tasks of one record, by what else is the same of them.
Json FailureReport::classes(const std::string& record, const value::Idset& ranks) const {
  Json out = Json::array();
  value::Idset rest = ranks;
  auto add = [&](const value::Idset& of, std::string last, const std::string& module) {
    Json each{{"record", record}, {"ranks", of.str()}};
    if (!last.empty()) each["last"] = std::move(last);
    if (!module.empty()) each["module"] = module;
    out.push_back(std::move(each));
  };
  if (auto digests = digests_.classes().find(record); digests != digests_.classes().end()) {
    for (const FailureDigests::Class& each : digests->second) {
      value::Idset some = each.ranks & rest;
      if (!some.empty()) add(some, each.last, each.module);
      rest = rest - some;
    }
  }
  auto known = representatives_.find(record);
  if (!rest.empty()) {
    bool is_of_it = known != representatives_.end() && rest.contains(known->second);
    add(rest, is_of_it ? last_line(known->second) : "", "");
  }
  return out;
}

// Processes, and core dumps, which stay.
Json FailureReport::all_left() const {
  Json out = Json::object();
  if (!left_.empty()) out["processes"] = left_;
  if (more_left_ > 0) out["more"] = more_left_;
  for (const auto& [rank, facts] : known_) {
    Json core = facts.value("core", Json::object());
    if (core.is_object() && core.contains("file"))
      out["files"].push_back({{"host", facts.value("host", "")}, {"rank", rank}, {"file", core["file"]}});
  }
  return out;
}

Json FailureReport::make(const Json& end) const {
  const job::Job& job = host_.job();
  Json classes = Json::array();
  Json others = Json::array();
  Json cause = this->cause(end);
  const Json tasks = end.value("tasks", Json::object());
  for (const auto& [text, ranks] : tasks.items()) {
    auto of = value::Idset::parse(ranks.get<std::string>());
    for (Json& each : this->classes(text, of.value_or(value::Idset()))) classes.push_back(std::move(each));
    auto known = representatives_.find(text);
    auto record = exits::Record::parse(text);
    if (known == representatives_.end() || !record || !known_.contains(known->second)) continue;
    if (cause.value("rank", Rank{0}) != known->second) others.push_back(facts_of(known->second, *record));
  }
  Json out{{"version", 1},
           {"job", {{"id", job.f58()}, {"name", job.name()}, {"tasks", job.tasks()}, {"shells", job.shells()}}},
           {"exit", end.value("exit", Json::object())},
           {"cause", std::move(cause)},
           {"classes", std::move(classes)},
           {"others", std::move(others)},
           {"timeline", timeline_}};
  if (Json left = all_left(); !left.empty()) out["left"] = std::move(left);
  return out;
}

}  // namespace nacre::plugins
