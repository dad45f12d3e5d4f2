// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/failure_report.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "event/clock.hpp"
#include "exits/known_reasons.hpp"
#include "exits/record.hpp"
#include "exits/report_text.hpp"
#include "plugin/questions.hpp"

namespace nacre::plugins {
namespace {

using Rank = value::Idset::Id;

constexpr const char* kAsk = "exit-report.ask";      // announcement: the ranks
constexpr const char* kFacts = "exit-report.facts";  // announcement: facts of one task, JSON
constexpr const char* kLeft = "exit-report.left";    // announcement: processes that have outlived their tasks, JSON
constexpr const char* kReportHold = "exit-report";
constexpr event::Seconds kLookAgain{0.02};
constexpr event::Seconds kMostDrain{
    0.5};  // for the output of a task to end, which a process that it left may hold open
constexpr event::Seconds kReportAnswerTime{2.0};  // for answers
constexpr std::size_t kMostEvents = 64;
constexpr std::size_t kMostArrivals = 256;  // of failures
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
    if (topic == kFacts && host_.job().leads()) take(bytes);
    if (topic == kLeft && host_.job().leads()) take_left(bytes);
  });
  digests_.serve();
  evidence_.serve();
}

// ---- what the leader learns -------------------------------------------------------------------

// Not what a signal to all tasks has ended, from outside.
bool FailureReport::is_failure(const exits::Record& record) const {
  if (!host_.exit_policy().is_failure(record)) return false;
  bool by_itself = record.kind() == exits::Record::Kind::ended;
  return !by_itself || !record.status()->is_signal() || !host_.sent_to_tasks(record.status()->signal());
}

void FailureReport::tasks_ended(const value::Idset& ranks, const exits::Record& record, double time) {
  if (is_victim(record)) victims_.insert(ranks);
  if (record.kind() == exits::Record::Kind::gone) gone_.insert(ranks);
  if (ranks.empty() || !is_failure(record)) return;
  Rank rank = *ranks.first();
  bool is_new = representatives_.emplace(record.str(), rank).second;
  if (arrivals_.size() < kMostArrivals) arrivals_.push_back({event::clock_now().count(), ranks, record});
  bool has_run = record.kind() == exits::Record::Kind::ended;
  if (has_run) failed_ += ranks.size();
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
  hangs_ = hangs_ || event == "hang";
  if (timeline_.size() == kMostEvents) return;
  what["time"] = time;
  what["event"] = event;
  timeline_.push_back(std::move(what));
}

void FailureReport::ask(Rank rank, std::size_t most) {
  if (asked_.contains(rank) || asked_.size() >= most) return;
  asked_.insert(rank);
  asked_at_[rank] = event::clock_now().count();
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
  if (is_waiting()) return;
  conclude();
  if (!std::exchange(holds_, false)) return;
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
  note_clock(rank, *facts);
  known_.insert_or_assign(rank, *std::move(facts));
  settle(rank);
}

// The shell that has answered has its own clock.
void FailureReport::note_clock(Rank rank, Json& facts) {
  auto times = facts.find("clock");
  if (times == facts.end()) return;
  const Json& received = member_of(*times, "received");
  const Json& answered = member_of(*times, "answered");
  auto shell = host_.job().taskmap.node_of(rank);
  if (shell && received.is_number() && answered.is_number())
    evidence_.add_exchange(
        *shell, {asked_at_[rank], received.get<double>(), answered.get<double>(), event::clock_now().count()});
  facts.erase("clock");
}

Result<void> FailureReport::finish() {
  auto end = host_.ended_by();
  bool has_ended = end && (is_failure(end->record) || is_victim(end->record));
  if (has_ended) ask(end->rank);
  if (failed_ > 1) ask_for_digests();
  if (failed_ > 1 || (has_ended && host_.job().tasks() > 1)) ask_for_evidence();
  if (!is_waiting()) {
    conclude();
    return {};
  }
  finish_timer_ = TRY(event::Timer::create(host_.loop(), [this] {
    waited_for_ = {};
    waits_for_digests_ = waits_for_evidence_ = false;
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

// What the first was is asked for, too.
void FailureReport::ask_for_evidence() {
  waits_for_evidence_ = true;
  evidence_.ask([this] {
    auto found = verdict();
    if (found && found->first.record.kind() != exits::Record::Kind::lost) ask(found->first.rank, kMostAsked + 1);
    waits_for_evidence_ = false;
    let_go();
  });
}

void FailureReport::conclude() {
  auto found = verdict();
  if (found && is_failure(found->first.record)) host_.set_first_failure(found->first);
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
    const event::Seconds until = each->second;
    each = asked_here_.erase(each);
    // A shell that is cut off need not report.
    Json facts = facts_.of(task);
    facts["clock"] = {{"received", (until - kMostDrain).count()}, {"answered", event::clock_now().count()}};
    static_cast<void>(host_.announce(kFacts, dump_json(facts)));
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

namespace {

// Not that it has lost another, where it has failed by itself.
void add_reason(Json& facts, const exits::Record& record) {
  const std::string err = facts.value("stderr", "");
  const exits::KnownReason* reason = exits::reason_in(err);
  if (reason == nullptr) return;
  bool is_of_peer = reason->origin == exits::Origin::peer;
  if (!is_of_peer || exits::origin_of(record, err) != exits::Origin::own) facts["reason"] = reason->name;
}

}  // namespace

Json FailureReport::facts_of(Rank rank, const exits::Record& record) const {
  auto known = known_.find(rank);
  Json out = known != known_.end() ? known->second : Json::object();
  out["rank"] = rank;
  out["record"] = record.str();
  out["kind"] = letter_of(record);
  if (record.status())
    out["value"] = record.status()->is_signal() ? record.status()->signal() : record.status()->exit_code();
  out["try"] = host_.job().attempt_of(rank);
  add_reason(out, record);
  auto node = host_.job().taskmap.node_of(rank);
  if (node && *node < host_.job().shells()) {
    out["shell"] = *node;
    out["host"] = host_.job().resources.nodes[*node].hostname;
  }
  return out;
}

// Of a victim that has ended the job: how it has ended then.
Json FailureReport::cause(const Json& end) const {
  auto found = verdict();
  Json out = Json::object();
  if (found) {
    const auto& [rank, record] = found->first;
    out = facts_of(rank, is_victim(record) ? record_in(end, rank).value_or(record) : record);
  }
  if (end.contains("cause")) out["message"] = end.at("cause");
  if (!found) return out;
  out["certain"] = found->is_certain;
  out["origin"] = exits::name_of(found->origin);
  if (!found->is_certain && !found->others.empty()) out["after"] = found->others.str();
  return out;
}

std::optional<exits::Record> FailureReport::arrived(Rank rank) const {
  for (const Arrival& each : arrivals_) {
    if (each.ranks.contains(rank)) return each.record;
  }
  return std::nullopt;
}

exits::FailureFacts FailureReport::failure_by_arrival(Rank rank, const exits::Record& record, double at) const {
  auto known = known_.find(rank);
  exits::FailureFacts out{rank, record};
  std::string err = known != known_.end() ? known->second.value("stderr", "") : "";
  out.origin = exits::origin_of(record, err);
  out.at = at;
  out.clock = host_.job().shell_rank;
  return out;
}

// Of tasks whose shells have not told more: the first of those that arrived together.
void FailureReport::add_by_arrival(std::vector<exits::FailureFacts>& failures) const {
  for (const Arrival& each : arrivals_) {
    bool may_be_told = each.record.kind() == exits::Record::Kind::ended;
    value::Idset rest = each.ranks;
    for (std::uint32_t shell : may_be_told ? evidence_.answered().ids() : std::vector<std::uint32_t>()) {
      if (shell < host_.job().shells()) rest = rest - host_.job().taskmap.ranks_on(shell);
    }
    if (rest.empty()) continue;
    failures.push_back(failure_by_arrival(*rest.first(), each.record, each.at));
    if (each.record.kind() != exits::Record::Kind::lost) continue;
    failures.back().uncertainty = exits::kCascade;  // it has been silent for some time
    failures.back().clock = host_.job().taskmap.node_of(*rest.first()).value_or(0);
  }
}

// What has failed by itself, and what the end of the job may have ended though it had failed.
std::vector<exits::FailureFacts> FailureReport::failures() const {
  auto end = host_.ended_by();
  std::vector<exits::FailureFacts> out = evidence_.failures();
  std::erase_if(out, [&](const exits::FailureFacts& each) {
    auto record = arrived(each.rank);
    return record && record->kind() != exits::Record::Kind::ended;  // those come by arrival
  });
  add_by_arrival(out);
  std::erase_if(out, [&](const exits::FailureFacts& each) {
    if (gone_.contains(each.rank)) return true;
    bool is_own_end = each.record.kind() == exits::Record::Kind::ended;
    if (!victims_.contains(each.rank) || (end && each.rank == end->rank)) return false;
    return !is_own_end || each.record.status()->is_signal() || each.origin != exits::Origin::own;
  });
  return out;
}

std::optional<FailureReport::Verdict> FailureReport::verdict() const {
  auto end = host_.ended_by();
  std::vector<exits::FailureFacts> all = failures();
  bool has_ended = end && (is_failure(end->record) || is_victim(end->record));
  auto of_end =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return end && each.rank == end->rank; });
  if (has_ended && of_end == all.end()) {
    double at = all.empty() ? 0 : all.front().at;
    of_end = all.insert(all.end(), failure_by_arrival(end->rank, end->record, at));
  }
  if (all.empty()) return std::nullopt;
  exits::Blame blame = exits::first_of(all);
  if (has_ended) {
    auto index = static_cast<std::size_t>(of_end - all.begin());
    bool is_other = all[blame.first].rank != end->rank && exits::outweighs(all[blame.first], all[index]);
    if (!is_other) {
      blame = exits::blame_on(all, index);
      all[index].record = end->record;
    }
  }
  const exits::FailureFacts& first = all[blame.first];
  // What the doctor concludes of a job that hangs is no more than likely.
  bool has_hung = has_ended && is_victim(end->record) && first.rank == end->rank && hangs_;
  blame.is_certain = blame.is_certain && !has_hung;
  return Verdict{{first.rank, first.record},
                 first.origin,
                 blame.is_certain,
                 blame.others | arrived_at_the_time_of(first.rank)};
}

// The others whose failures came to be known so soon before or after it.
value::Idset FailureReport::arrived_at_the_time_of(Rank rank) const {
  auto its = std::find_if(arrivals_.begin(), arrivals_.end(),
                          [&](const Arrival& each) { return each.ranks.contains(rank); });
  value::Idset out;
  if (its == arrivals_.end()) return out;
  for (const Arrival& each : arrivals_) {
    if (each.record.kind() == exits::Record::Kind::ended && std::abs(each.at - its->at) <= exits::kInstant)
      out.insert(each.ranks);
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

// What the option health has found.
Json FailureReport::bad_hosts() const {
  if (host_.options().find("health") == nullptr) return {};
  plugin::Call call("job.health");
  return host_.stack().call(call) ? call.out.value("hosts", Json::array()) : Json();
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
  if (Json hosts = bad_hosts(); !hosts.empty()) out["health"] = std::move(hosts);
  return out;
}

// ---- digests ----------------------------------------------------------------------------

namespace {

constexpr std::string_view kDigests =
    "exit-report.digests";               // an announcement of the leader: records; and a collective
constexpr event::Seconds kWritten{0.5};  // for the output of tasks to end
constexpr event::Seconds kLookWritten{0.02};
constexpr std::size_t kMostCores = 4;  // that are looked at, of tasks that have failed alike but for that

std::string module_of(const TaskFacts& facts, const task::Task& task) {
  Json core = facts.core(task);
  return core.is_object() ? core.value("module", "") : "";
}

}  // namespace

void FailureDigests::serve() {
  announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kDigests) asked(bytes);
  });
}

void FailureDigests::ask(const std::vector<std::string>& records, std::function<void()> done) {
  done_ = std::move(done);
  if (!host_.announce(kDigests, fmt::format("{}", fmt::join(records, " ")))) std::exchange(done_, {})();
}

// By each shell, once.
void FailureDigests::asked(std::string_view records) {
  if (!records_.empty()) return;
  for (std::string_view each : split(records, ' ')) records_.emplace(each);
  until_ = event::clock_now() + kWritten;
  answer_if_written();
}

void FailureDigests::answer_if_written() {
  timer_.reset();
  auto is_written = [this](const auto& task) {
    return task->starts_again() || !records_.contains(exits::Record::of(task->status()).str()) ||
           facts_.is_complete(*task);
  };
  auto tasks = host_.tasks();
  if (event::clock_now() >= until_ || std::all_of(tasks.begin(), tasks.end(), is_written)) return answer();
  auto timer = event::Timer::create(host_.loop(), [this] { answer_if_written(); });
  if (!timer) return answer();
  timer_ = *std::move(timer);
  timer_->unref();
  timer_->start(kLookWritten);
}

void FailureDigests::answer() {
  gathered_ = host_.gather(kDigests, own(), [this](const Result<plugin::Gathered>& all) {
    if (all && host_.job().leads()) take(*all);
    if (done_) std::exchange(done_, {})();
  });
}

// [[RECORD, LAST LINE, MODULE, RANKS], ...], "" if there is none.
std::string FailureDigests::own() const {
  std::map<std::pair<std::string, std::string>, std::vector<const task::Task*>> alike;
  for (const auto& task : host_.tasks()) {
    if (task->starts_again()) continue;  // elsewhere
    std::string record = exits::Record::of(task->status()).str();
    if (records_.contains(record)) alike[{std::move(record), facts_.last_line(*task)}].push_back(task.get());
  }
  std::map<std::string, std::size_t> counts;  // of classes, by record
  Json out = Json::array();
  for (const auto& [what, tasks] : alike) {
    std::map<std::string, value::Idset> by_module;
    std::string module;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (i < kMostCores) module = module_of(facts_, *tasks[i]);
      by_module[module].insert(static_cast<value::Idset::Id>(tasks[i]->rank()));
    }
    for (const auto& [name, ranks] : by_module) {
      if (counts[what.first]++ < kMostHere) out.push_back({what.first, what.second, name, ranks.str()});
    }
  }
  return out.empty() ? "" : dump_json(out);
}

// What another shell has sent is looked at member by member.
void FailureDigests::take(const plugin::Gathered& all) {
  std::map<std::tuple<std::string, std::string, std::string>, value::Idset> united;
  for (const auto& [bytes, shells] : all) {
    auto list = parse_json(bytes);
    if (!list || !list->is_array()) continue;
    for (const Json& each : *list) {
      bool is_whole = each.is_array() && each.size() == 4 &&
                      std::all_of(each.begin(), each.end(), [](const Json& text) { return text.is_string(); });
      auto ranks = is_whole ? value::Idset::parse(each[3].get<std::string>()) : value::Idset();
      if (!ranks || ranks->empty()) continue;
      united[{each[0].get<std::string>(), each[1].get<std::string>(), each[2].get<std::string>()}].insert(*ranks);
    }
  }
  for (const auto& [what, ranks] : united) {
    const auto& [record, last, module] = what;
    classes_[record].push_back({last, module, ranks});
  }
  for (auto& [record, classes] : classes_) {
    std::stable_sort(classes.begin(), classes.end(),
                     [](const Class& a, const Class& b) { return a.ranks.size() > b.ranks.size(); });
    if (classes.size() > kMostAll) classes.resize(kMostAll);
  }
}

// ---- evidence ---------------------------------------------------------------------------

namespace {

constexpr std::string_view kEvidence = "exit-report.evidence";  // an announcement of the leader, and a collective
constexpr event::Seconds kEvidenceWritten{0.5};                 // for the output of tasks to end
constexpr event::Seconds kLookForEvidence{0.02};
constexpr std::size_t kMostLookedAt = 256;  // tasks of a shell, the first that died
constexpr double kLate = 0.005;             // seconds by which a shell may see a death later than another one does

timeline::Time nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

Json json_of(const exits::FailureFacts& failure) {
  return {failure.rank, failure.record.str(), exits::name_of(failure.origin), failure.at, failure.order};
}

std::optional<exits::FailureFacts> failure_in(const Json& json, std::uint32_t shell) {
  bool is_whole = json.is_array() && json.size() == 5 && json[0].is_number_unsigned() && json[1].is_string() &&
                  json[2].is_string() && json[3].is_number() && json[4].is_number_unsigned();
  auto record = exits::Record::parse(is_whole ? json[1].get<std::string>() : "");
  auto origin = is_whole ? exits::origin_named(json[2].get<std::string>()) : std::nullopt;
  if (!record || !origin) return std::nullopt;
  exits::FailureFacts out{json[0].get<value::Idset::Id>(), *record, *origin};
  out.at = json[3].get<double>();
  out.order = json[4].get<std::uint64_t>();
  out.clock = shell;
  return out;
}

}  // namespace

void FailureEvidence::serve() {
  announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view /*bytes*/) {
    if (topic == kEvidence) asked();
  });
}

void FailureEvidence::ask(std::function<void()> done) {
  done_ = std::move(done);
  sent_ = event::clock_now();
  if (!host_.announce(kEvidence, "{}")) std::exchange(done_, {})();
}

// By each shell, once.
void FailureEvidence::asked() {
  if (received_ > event::Seconds::zero()) return;
  received_ = event::clock_now();
  answer_if_written();
}

void FailureEvidence::answer_if_written() {
  timer_.reset();
  auto is_written = [this](const auto& task) {
    return task->starts_again() || !host_.exit_policy().is_failure(exits::Record::of(task->status())) ||
           facts_.is_complete(*task);
  };
  auto tasks = host_.tasks();
  if (event::clock_now() >= received_ + kEvidenceWritten || std::all_of(tasks.begin(), tasks.end(), is_written))
    return answer();
  auto timer = event::Timer::create(host_.loop(), [this] { answer_if_written(); });
  if (!timer) return answer();
  timer_ = *std::move(timer);
  timer_->unref();
  timer_->start(kLookForEvidence);
}

void FailureEvidence::answer() {
  Json mine{{"clock", event::clock_of_host()}, {"shell", host_.job().shell_rank}, {"failures", Json::array()}};
  for (const exits::FailureFacts& each : own()) mine["failures"].push_back(json_of(each));
  mine["received"] = received_.count();
  mine["answered"] = event::clock_now().count();
  // Shells that have nothing to say all say the same.
  std::string part = mine["failures"].empty() ? "" : dump_json(mine);
  gathered_ = host_.gather(kEvidence, std::move(part), [this](const Result<plugin::Gathered>& all) {
    if (all && host_.job().leads()) take(*all);
    if (done_) std::exchange(done_, {})();
  });
}

// Those that may have been the first here, and the first of the rest. One that the end of the job has ended may
// have failed by itself before.
std::vector<exits::FailureFacts> FailureEvidence::own() const {
  std::vector<const task::Task*> failed;
  for (const auto& task : host_.tasks()) {
    bool has_ended = task->state() == task::State::exited && !task->starts_again() && task->pid() != 0;
    if (has_ended && facts_.has_failed(*task)) failed.push_back(task.get());
  }
  std::stable_sort(failed.begin(), failed.end(), [](const task::Task* a, const task::Task* b) {
    return std::pair(a->death().at, a->death().order) < std::pair(b->death().at, b->death().order);
  });
  if (failed.size() > kMostLookedAt) failed.resize(kMostLookedAt);
  std::vector<exits::FailureFacts> out;
  for (const task::Task* each : failed)
    out.push_back(plugin::failure_of(host_, *each, exits::Record::of(each->status()), facts_.error_text(*each)));
  std::stable_sort(out.begin(), out.end(), [](const exits::FailureFacts& a, const exits::FailureFacts& b) {
    bool a_peer = a.origin == exits::Origin::peer;
    bool b_peer = b.origin == exits::Origin::peer;
    return std::tuple(a_peer, a.at, a.order) < std::tuple(b_peer, b.at, b.order);
  });
  std::size_t others = 0;
  std::size_t peers = 0;
  std::erase_if(out, [&](const exits::FailureFacts& each) {
    return each.origin == exits::Origin::peer ? ++peers > kMostPeers : ++others > kMostOwn;
  });
  return out;
}

// What another shell has sent is looked at member by member.
void FailureEvidence::take(const plugin::Gathered& all) {
  const double taken = event::clock_now().count();
  for (const auto& [bytes, shells] : all) {
    if (shells.empty()) continue;
    if (bytes.empty()) {
      answered_.insert(shells);
      continue;
    }
    auto told = parse_json(bytes);
    if (!told || !told->is_object() || shells.size() != 1) continue;
    const std::uint32_t shell = *shells.first();
    const Json& failures = member_of(*told, "failures");
    if (!failures.is_array()) continue;
    answered_.insert(shell);
    for (const Json& each : failures) {
      if (auto failure = failure_in(each, shell)) failures_.push_back(*failure);
    }
    const std::string& clock = event::clock_of_host();
    if (member_of(*told, "clock") == clock && !clock.empty()) clocks_[shell].set_same();
    const Json& received = member_of(*told, "received");
    const Json& answered = member_of(*told, "answered");
    if (received.is_number() && answered.is_number())
      add_exchange(shell, {sent_.count(), received.get<double>(), answered.get<double>(), taken});
  }
}

void FailureEvidence::add_exchange(std::uint32_t shell, const Exchange& exchange) {
  clocks_[shell].add_exchange(nanoseconds(exchange.sent), nanoseconds(exchange.received),
                              nanoseconds(exchange.answered), nanoseconds(exchange.taken));
}

std::vector<exits::FailureFacts> FailureEvidence::failures() const {
  std::vector<exits::FailureFacts> out = failures_;
  for (exits::FailureFacts& each : out) {
    if (each.clock == host_.job().shell_rank) continue;
    auto clock = clocks_.find(each.clock);
    if (clock == clocks_.end()) {
      each.uncertainty = exits::kCascade;
      continue;
    }
    timeline::Time at = nanoseconds(each.at);
    timeline::Time wide = clock->second.uncertainty(at);
    each.at = static_cast<double>(clock->second.to_leader(at)) / 1e9;
    each.uncertainty =
        kLate + (wide == timeline::Clock::kUnknown ? exits::kCascade : static_cast<double>(wide) / 1e9);
  }
  return out;
}

// ---- naming -----------------------------------------------------------------------------

namespace {

using Ranks = value::Idset;

// How long failures are gathered for a line: the first ones hardly, so that the line comes at once, but it is one
// if all tasks fail together; then the longer, the more lines there have been, until none fails for a while.
constexpr event::Seconds kFirstWait{0.02};
constexpr event::Seconds kSecondWait{0.15};
constexpr event::Seconds kLongestWait{2.0};
// For what the tasks have written to come out: how often it is looked at, and how long it is waited for.
constexpr event::Seconds kLookAtOutput{0.02};
constexpr event::Seconds kMostDelay{1.0};
// In one line, and in a moment; of more than that only the number is given.
constexpr std::size_t kMostRanges = 16;
constexpr std::size_t kMostHosts = 8;
constexpr std::size_t kMostLines = 16;

std::string ranks_text(const Ranks& ranks) {
  std::string out;
  std::size_t count = 0;
  for (const Ranks::Range& each : ranks.ranges()) {
    if (count++ == kMostRanges) return out + fmt::format(", ... ({} tasks)", ranks.size());
    if (!out.empty()) out += ", ";
    out += each.first == each.last ? fmt::format("{}", each.first) : fmt::format("{}-{}", each.first, each.last);
  }
  return out;
}

// "3, 7-9 on n1, 12 on n2"; without hosts where they are many, or unknown.
std::string place_of(const job::Job& job, const Ranks& ranks) {
  std::vector<std::pair<std::string, Ranks>> hosts;
  for (Ranks left = ranks; !left.empty();) {
    auto node = job.taskmap.node_of(*left.first());
    if (!node || *node >= job.resources.nodes.size()) return ranks_text(ranks);
    std::string on = job.resources.nodes[*node].on();
    auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& each) { return each.first == on; });
    if (host == hosts.end()) {
      if (hosts.size() == kMostHosts) return ranks_text(ranks);
      host = hosts.insert(host, {on, {}});
    }
    Ranks here = left & job.taskmap.ranks_on(*node);
    host->second = host->second | here;
    left = left - here;
  }
  std::string out;
  for (const auto& [on, here] : hosts) out += fmt::format("{}{}{}", out.empty() ? "" : ", ", ranks_text(here), on);
  return out;
}

constexpr int kNoSuchCommand = 127;

std::string record_text(const exits::Record& record) {
  const value::WaitStatus& status = *record.status();
  if (record.kind() != exits::Record::Kind::not_started)
    return status.is_exit() ? fmt::format("exit code {}", status.exit_code()) : status.str();
  return status.exit_code() == kNoSuchCommand ? "not started: no such command" : "not started: not executable";
}

}  // namespace

Result<void> FailureNaming::add(const Ranks& ranks, const exits::Record& record) {
  Ranks& alike = failed_[record.str()];
  alike = alike | ranks;
  if (timer_) return {};
  const event::Seconds now = event::clock_now();
  const bool is_first = !named_at_ || now - *named_at_ > kLongestWait;
  wait_ = is_first ? kFirstWait : std::clamp(2 * wait_, kSecondWait, kLongestWait);
  timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
  timer_->start(wait_);
  waits_since_ = now + wait_;
  return {};
}

void FailureNaming::finish() {
  timer_.reset();
  report(std::exchange(failed_, {}));
}

void FailureNaming::look() {
  Failed ready = event::clock_now() - waits_since_ < kMostDelay ? take_ready() : std::exchange(failed_, {});
  report(std::move(ready));
  if (failed_.empty())
    timer_.reset();
  else
    timer_->start(kLookAtOutput);
}

// Those whose output has come out.
FailureNaming::Failed FailureNaming::take_ready() {
  if (host_.task_output() == nullptr) return std::exchange(failed_, {});
  Ranks left = host_.task_output()->come_out();
  Failed ready;
  for (auto& [text, ranks] : failed_) {
    if (Ranks some = ranks & left; !some.empty()) ready[text] = some;
    ranks = ranks - left;
  }
  std::erase_if(failed_, [](const auto& each) { return each.second.empty(); });
  return ready;
}

void FailureNaming::report(Failed failed) {
  if (!failed.empty()) named_at_ = event::clock_now();
  std::size_t lines = 0;
  std::uint64_t more = 0;
  auto cause = host_.ended_by();
  for (auto& [text, ranks] : failed) {
    auto record = exits::Record::parse(text);
    if (cause) ranks.remove(cause->rank);
    bool is_named = cause && cause->record.kind() == exits::Record::Kind::not_started &&
                    record->kind() == exits::Record::Kind::not_started;
    if (ranks.empty() || is_named) continue;
    if (lines++ < kMostLines) {
      host_.log().log(Level::error, "", "task {}: {}", place_of(host_.job(), ranks), record_text(*record));
    } else {
      more += ranks.size();
    }
  }
  if (more > 0) host_.log().log(Level::error, "", "{} more tasks have failed in other ways", more);
}

}  // namespace nacre::plugins
