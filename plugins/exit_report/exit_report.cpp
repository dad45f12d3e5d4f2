// SPDX-License-Identifier: Apache-2.0
//
// exit-report=off|line|full: names the tasks that fail as they do (line), and when the job has failed reports what
// went wrong first, and where (full, the default). Not named are tasks that were ended by the end of the job
// (victims) or by a signal to all tasks (Ctrl-C), and what another message names: the task whose end ends the job,
// commands that could not be started, lost shells. report=FILE: the report as JSON, of each job, whatever its end.
// In a container of Kubernetes its termination log has two lines of it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "event/clock.hpp"
#include "event/loop.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "exits/report_text.hpp"
#include "plugin/events.hpp"
#include "plugin/host.hpp"
#include "plugin/questions.hpp"
#include "plugins/builtins.hpp"
#include "plugins/exit_report/report_file.hpp"
#include "plugins/exit_report/task_facts.hpp"
#include "timeline/facts.hpp"

namespace nacre::plugins {
namespace {

// What went wrong first, and where: the leader's report of a job that has failed, as nacre-exits(7) describes it.
// While the job runs it asks the shells of a few tasks what they know of them: of the first task that failed, and
// of one task for each other way to fail.

constexpr std::string_view kDigests =
    "exit-report.digests";             // an announcement of the leader: records; and a collective
constexpr std::size_t kMostCores = 4;  // core dumps that are looked at, of tasks that have failed alike in all else

std::string module_of(const TaskFacts& facts, const task::Task& task) {
  Json core = facts.core(task);
  return core.is_object() ? core.value("module", "") : "";
}

// Waits until all that tasks have written is known, as far as it matters, or for a short time.
class OutputWait {
 public:
  OutputWait(plugin::Host& host, TaskFacts& facts) : host_(host), facts_(facts) {}

  // `matters`: for tasks with this end. `done` is called once, perhaps before this returns. To be called once.
  void await(std::function<bool(const exits::Record& end)> matters, std::function<void()> done) {
    matters_ = std::move(matters);
    done_ = std::move(done);
    until_ = event::clock_now() + kMost;
    look();
  }

 private:
  static constexpr event::Seconds kMost{0.5};
  static constexpr event::Seconds kPeriod{0.02};

  void look() {
    timer_.reset();
    auto is_known = [this](const auto& task) {
      return task->starts_again() || !matters_(exits::Record::of(task->status())) || facts_.is_complete(*task);
    };
    auto tasks = host_.tasks();
    if (event::clock_now() >= until_ || std::all_of(tasks.begin(), tasks.end(), is_known)) return done_();
    auto timer = event::Timer::create(host_.loop(), [this] { look(); });
    if (!timer) return done_();
    timer_ = *std::move(timer);
    timer_->unref();
    timer_->start(kPeriod);
  }

  plugin::Host& host_;
  TaskFacts& facts_;
  std::function<bool(const exits::Record&)> matters_;
  std::function<void()> done_;
  event::Seconds until_{};
  std::optional<event::Timer> timer_;
};

// Finds which tasks have failed alike: in the same way, with the same last line on standard error and, if a core
// dump shows it, in the same module. The leader asks all shells once, when the job's tasks have ended; each answers
// for its own tasks.
class FailureDigests {
 public:
  static constexpr std::size_t kMostHere = 16;  // classes that a shell sends, for each way to fail
  static constexpr std::size_t kMostAll = 32;   // classes in all

  struct Class {
    std::string last;    // line
    std::string module;  // "": not known
    value::Idset ranks;
  };

  // Both have to outlive it.
  FailureDigests(plugin::Host& host, TaskFacts& facts) : host_(host), facts_(facts) {}

  // From here on this shell answers the leader.
  void serve() {
    announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == kDigests) asked(bytes);
    });
  }

  // On the leader: asks about tasks whose records have these texts. `done` is called once, perhaps before this
  // returns, unless this object is destroyed.
  void ask(const std::vector<std::string>& records, std::function<void()> done) {
    done_ = std::move(done);
    if (!host_.announce(kDigests, fmt::format("{}", fmt::join(records, " ")))) std::exchange(done_, {})();
  }

  // By the record's text, the largest class first. Tasks about which nothing is known are in no class, nor are
  // those of classes beyond the limits.
  [[nodiscard]] const std::map<std::string, std::vector<Class>>& classes() const { return classes_; }

 private:
  // Called once on each shell.
  void asked(std::string_view records) {
    if (!records_.empty()) return;
    for (std::string_view each : split(records, ' ')) records_.emplace(each);
    output_.await([this](const exits::Record& end) { return records_.contains(end.str()); }, [this] { answer(); });
  }

  void answer() {
    gathered_ = host_.gather(kDigests, own(), [this](const Result<plugin::Gathered>& all) {
      if (all && host_.job().leads()) take(*all);
      if (done_) std::exchange(done_, {})();
    });
  }

  // [[RECORD, LAST LINE, MODULE, RANKS], ...], "" if there is none.
  [[nodiscard]] std::string own() const {
    std::map<std::pair<std::string, std::string>, std::vector<const task::Task*>> alike;
    for (const auto& task : host_.tasks()) {
      if (task->starts_again()) continue;  // it starts again elsewhere
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

  // Checks each member of what another shell has sent.
  void take(const plugin::Gathered& all) {
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

  plugin::Host& host_;
  TaskFacts& facts_;
  plugin::Registration announcements_, gathered_;
  std::function<void()> done_;
  std::set<std::string> records_;  // that are asked for
  OutputWait output_{host_, facts_};
  std::map<std::string, std::vector<Class>> classes_;
};

constexpr std::string_view kEvidence = "exit-report.evidence";  // an announcement of the leader, and a collective
constexpr std::size_t kMostLookedAt = 256;                      // tasks of a shell, the first that died
constexpr double kLate = 0.005;  // seconds by which a shell may see a death later than another shell

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

// What the job's shells know of failed tasks; from this it follows which failure was the first (exits/blame.hpp).
// The leader asks all shells once, when the tasks have ended; each shell answers for those of its own tasks that
// may have been the first.
class FailureEvidence {
 public:
  static constexpr std::size_t kMostOwn = 6;    // failures that a shell sends, if no other task has caused them
  static constexpr std::size_t kMostPeers = 2;  // ... and of the others

  // Both have to outlive it.
  FailureEvidence(plugin::Host& host, TaskFacts& facts) : host_(host), facts_(facts) {}

  // From here on this shell answers the leader.
  void serve() {
    announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view /*bytes*/) {
      if (topic == kEvidence) asked();
    });
  }

  // On the leader. `done` is called once, perhaps before this returns, unless this object is destroyed.
  void ask(std::function<void()> done) {
    done_ = std::move(done);
    sent_ = event::clock_now();
    if (!host_.announce(kEvidence, "{}")) std::exchange(done_, {})();
  }

  // Relates the clock of a shell to the leader's: times of a question and its answer, in seconds, each by the clock
  // of the shell that has sent or received it.
  struct Exchange {
    double sent = 0, received = 0, answered = 0, taken = 0;
  };

  void add_exchange(std::uint32_t shell, const Exchange& exchange) {
    clocks_[shell].add_exchange(nanoseconds(exchange.sent), nanoseconds(exchange.received),
                                nanoseconds(exchange.answered), nanoseconds(exchange.taken));
  }

  // By the leader's clock. For a shell that has answered these are all that may have been the first there.
  [[nodiscard]] std::vector<exits::FailureFacts> failures() const {
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

  [[nodiscard]] const value::Idset& answered() const { return answered_; }  // shells

 private:
  // Called once on each shell.
  void asked() {
    if (received_ > event::Seconds::zero()) return;
    received_ = event::clock_now();
    output_.await([this](const exits::Record& end) { return host_.exit_policy().is_failure(end); },
                  [this] { answer(); });
  }

  void answer() {
    Json mine{{"clock", event::clock_of_host()}, {"shell", host_.job().shell_rank}, {"failures", Json::array()}};
    for (const exits::FailureFacts& each : own()) mine["failures"].push_back(json_of(each));
    mine["received"] = received_.count();
    mine["answered"] = event::clock_now().count();
    // Shells without failures all give the same.
    std::string part = mine["failures"].empty() ? "" : dump_json(mine);
    gathered_ = host_.gather(kEvidence, std::move(part), [this](const Result<plugin::Gathered>& all) {
      if (all && host_.job().leads()) take(*all);
      if (done_) std::exchange(done_, {})();
    });
  }

  // The failures that may have been the first here, and the first of the others. A task that the end of the job has
  // ended may have failed by itself before.
  [[nodiscard]] std::vector<exits::FailureFacts> own() const {
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

  // Checks each member of what another shell has sent.
  void take(const plugin::Gathered& all) {
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

  plugin::Host& host_;
  TaskFacts& facts_;
  plugin::Registration announcements_, gathered_;
  std::function<void()> done_;
  event::Seconds sent_{};      // when all were asked
  event::Seconds received_{};  // when this shell was asked
  OutputWait output_{host_, facts_};
  std::vector<exits::FailureFacts> failures_;  // by the clock of each one's shell, which its `clock` names
  std::map<std::uint32_t, timeline::Clock> clocks_;
  value::Idset answered_;
};

using Rank = value::Idset::Id;

constexpr const char* kAsk = "exit-report.ask";      // announcement: the ranks
constexpr const char* kFacts = "exit-report.facts";  // announcement: facts of one task, JSON
constexpr const char* kLeft = "exit-report.left";    // announcement: processes that have outlived their tasks, JSON
constexpr const char* kReportHold = "exit-report";
constexpr event::Seconds kLookAgain{0.02};
constexpr event::Seconds kMostDrain{
    0.5};  // how long to wait for the end of a task's output, which a process that it left may hold open
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

// Leaves out that it has lost another task, if it has failed by itself.
void add_reason(Json& facts, const exits::Record& record) {
  const std::string err = facts.value("stderr", "");
  const exits::KnownReason* reason = exits::reason_in(err);
  if (reason == nullptr) return;
  bool is_of_peer = reason->origin == exits::Origin::peer;
  if (!is_of_peer || exits::origin_of(record, err) != exits::Origin::own) facts["reason"] = reason->name;
}

class FailureReport {
 public:
  static constexpr std::size_t kMostAsked = 8;  // tasks

  // Both have to outlive it.
  FailureReport(plugin::Host& host, TaskFacts& facts)
      : host_(host), facts_(facts), digests_(host, facts), evidence_(host, facts) {}

  // From here on other shells are asked and answered.
  void serve() {
    heard_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == kAsk) answer(bytes);
      if (topic == kFacts && host_.job().leads()) take(bytes);
      if (topic == kLeft && host_.job().leads()) take_left(bytes);
    });
    digests_.serve();
    evidence_.serve();
  }

  // On the leader; `time`: seconds since the Epoch.
  void tasks_ended(const value::Idset& ranks, const exits::Record& record, double time) {
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

  // For the timeline.
  void note(std::string_view event, Json what, double time) {
    hangs_ = hangs_ || event == "hang";
    if (event == "hang") hung_ = what;
    if (event == "restart") hung_ = Json::object();
    if (timeline_.size() == kMostEvents) return;
    what["time"] = time;
    what["event"] = event;
    timeline_.push_back(std::move(what));
  }

  // On this shell: processes that have outlived their tasks and are being ended, in the form of the topic
  // shell.processes-left.
  void left(const Json& processes) {
    const job::Job& job = host_.job();
    Json told{{"processes", Json::array()}};
    for (const Json& each : processes) {
      if (told["processes"].size() == kMostLeftHere) break;
      told["processes"].push_back(each);
      told["processes"].back()["shell"] = job.shell_rank;
      told["processes"].back()["host"] = job.resources.nodes[job.shell_rank].hostname;
    }
    if (processes.size() > kMostLeftHere) told["more"] = processes.size() - kMostLeftHere;
    static_cast<void>(host_.announce(kLeft, dump_json(told)));  // a shell that is cut off need not report
  }

  // On the leader: the shell is lost, and answers no more.
  void lost(std::uint32_t shell) {
    if (shell >= host_.job().shells()) return;
    for (Rank rank : (waited_for_ & host_.job().taskmap.ranks_on(shell)).ids()) settle(rank);
  }

  // All tasks have ended: waits for a moment for open answers.
  Result<void> finish() {
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

  // Makes the report of how the job has ended (exits::summary).
  [[nodiscard]] Json make(const Json& end) const {
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

  // Whether a running task has failed, other than by writing to a reader that has gone. For commands that could not
  // be started, and for lost shells, the error that ends the job says all.
  [[nodiscard]] bool has_news() const {
    if (auto end = host_.ended_by(); end && is_victim(end->record)) return true;
    return std::any_of(representatives_.begin(), representatives_.end(), [](const auto& each) {
      auto record = exits::Record::parse(each.first);
      if (!record || record->status() == value::WaitStatus::killed(SIGPIPE)) return false;
      return record->kind() == exits::Record::Kind::ended || record->kind() == exits::Record::Kind::over_time;
    });
  }

 private:
  // The first that failed, as far as it is known now; none: nothing has failed.
  struct Verdict {
    exits::TaskEnd first;
    exits::Origin origin = exits::Origin::unknown;
    bool is_certain = false;
    value::Idset others;  // others that may have been the first
  };

  [[nodiscard]] bool is_waiting() const {
    return !waited_for_.empty() || waits_for_digests_ || waits_for_evidence_;
  }

  // ---- what the leader learns ----------------------------------------------------------

  // A task that a signal to all tasks from outside has ended has not failed.
  [[nodiscard]] bool is_failure(const exits::Record& record) const {
    if (!host_.exit_policy().is_failure(record)) return false;
    bool by_itself = record.kind() == exits::Record::Kind::ended;
    return !by_itself || !host_.sent_to_tasks(record.status()->ending_signal());
  }

  void ask(Rank rank, std::size_t most = kMostAsked) {
    if (asked_.contains(rank) || asked_.size() >= most) return;
    asked_.insert(rank);
    asked_at_[rank] = event::clock_now().count();
    waited_for_.insert(rank);
    if (!host_.announce(kAsk, value::Idset::range(rank, rank).str())) settle(rank);
  }

  void settle(Rank rank) {
    waited_for_.remove(rank);
    let_go();
  }

  void let_go() {
    if (is_waiting()) return;
    conclude();
    if (!std::exchange(holds_, false)) return;
    finish_timer_.reset();
    static_cast<void>(host_.release(kReportHold));
  }

  void take_left(std::string_view text) {
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

  void take(std::string_view text) {
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

  // The times are by the clock of the shell that has answered.
  void note_clock(Rank rank, Json& facts) {
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

  void ask_for_digests() {
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

  // Also asks which failure was the first.
  void ask_for_evidence() {
    waits_for_evidence_ = true;
    evidence_.ask([this] {
      auto found = verdict();
      if (found && found->first.record.kind() != exits::Record::Kind::lost) ask(found->first.rank, kMostAsked + 1);
      waits_for_evidence_ = false;
      let_go();
    });
  }

  void conclude() {
    auto found = verdict();
    if (found && is_failure(found->first.record)) host_.set_first_failure(found->first);
  }

  // ---- what a task's own shell answers -------------------------------------------------

  void answer(std::string_view text) {
    auto ranks = value::Idset::parse(text);
    if (!ranks) return;
    for (const auto& task : host_.tasks()) {
      if (ranks->contains(task->rank()) && !task->starts_again())
        asked_here_.emplace(task.get(), event::clock_now() + kMostDrain);
    }
    answer_if_complete();
  }

  void answer_if_complete() {
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

  // ---- the report ----------------------------------------------------------------------

  [[nodiscard]] Json facts_of(Rank rank, const exits::Record& record) const {
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

  // What hang-watch has found before it killed the task, so that it starts again; "": it has not.
  [[nodiscard]] std::string why_killed(Rank rank, const exits::Record& record) const {
    auto killed = value::Idset::parse(hung_.value("killed", ""));
    return killed && killed->contains(rank) && record.str() == "s9" ? hung_.value("why", "") : "";
  }

  // If a victim has ended the job: how it has ended by now.
  [[nodiscard]] Json cause(const Json& end) const {
    auto found = verdict();
    Json out = Json::object();
    if (found) {
      const auto& [rank, record] = found->first;
      out = facts_of(rank, is_victim(record) ? record_in(end, rank).value_or(record) : record);
      if (std::string why = why_killed(rank, record); !why.empty()) out["hang"] = std::move(why);
    }
    if (end.contains("cause")) out["message"] = end.at("cause");
    if (!found) return out;
    out["certain"] = found->is_certain;
    out["origin"] = exits::name_of(found->origin);
    if (!found->is_certain && !found->others.empty()) out["after"] = found->others.str();
    return out;
  }

  [[nodiscard]] std::optional<exits::Record> arrived(Rank rank) const {
    for (const Arrival& each : arrivals_) {
      if (each.ranks.contains(rank)) return each.record;
    }
    return std::nullopt;
  }

  [[nodiscard]] exits::FailureFacts failure_by_arrival(Rank rank, const exits::Record& record, double at) const {
    auto known = known_.find(rank);
    exits::FailureFacts out{rank, record};
    std::string err = known != known_.end() ? known->second.value("stderr", "") : "";
    out.origin = exits::origin_of(record, err);
    out.at = at;
    out.clock = host_.job().shell_rank;
    return out;
  }

  // For tasks whose shells have told no more: adds the first of those that arrived together.
  void add_by_arrival(std::vector<exits::FailureFacts>& failures) const {
    for (const Arrival& each : arrivals_) {
      bool may_be_told = each.record.kind() == exits::Record::Kind::ended;
      value::Idset rest = each.ranks;
      for (std::uint32_t shell : may_be_told ? evidence_.answered().ids() : std::vector<std::uint32_t>()) {
        if (shell < host_.job().shells()) rest = rest - host_.job().taskmap.ranks_on(shell);
      }
      if (rest.empty()) continue;
      failures.push_back(failure_by_arrival(*rest.first(), each.record, each.at));
      if (each.record.kind() != exits::Record::Kind::lost) continue;
      failures.back().uncertainty = exits::kCascade;  // the shell has been silent for some time
      failures.back().clock = host_.job().taskmap.node_of(*rest.first()).value_or(0);
    }
  }

  // The tasks that have failed by themselves, and those that the end of the job may have ended although they had
  // failed.
  [[nodiscard]] std::vector<exits::FailureFacts> failures() const {
    auto end = host_.ended_by();
    std::vector<exits::FailureFacts> out = evidence_.failures();
    std::erase_if(out, [&](const exits::FailureFacts& each) {
      auto record = arrived(each.rank);
      return record && record->kind() != exits::Record::Kind::ended;  // failures without more facts are added by
                                                                      // their arrival
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

  [[nodiscard]] std::optional<Verdict> verdict() const {
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
    // What the doctor concludes about a hanging job is only likely.
    bool has_hung = has_ended && is_victim(end->record) && first.rank == end->rank && hangs_;
    blame.is_certain = blame.is_certain && !has_hung;
    return Verdict{{first.rank, first.record},
                   first.origin,
                   blame.is_certain,
                   blame.others | arrived_at_the_time_of(first.rank)};
  }

  // The others whose failures became known shortly before or after this one.
  [[nodiscard]] value::Idset arrived_at_the_time_of(Rank rank) const {
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

  [[nodiscard]] std::string last_line(Rank rank) const {
    auto known = known_.find(rank);
    return known != known_.end() ? exits::last_line_of(known->second.value("stderr", "")) : "";
  }

  // Groups tasks with one record by what else they have in common.
  [[nodiscard]] Json classes(const std::string& record, const value::Idset& ranks) const {
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

  // Processes, and core dumps, that the job leaves behind.
  [[nodiscard]] Json all_left() const {
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

  // The bad hosts that the option health has found.
  [[nodiscard]] Json bad_hosts() const {
    if (host_.options().find("health") == nullptr) return {};
    plugin::Call call("job.health");
    return host_.stack().call(call) ? call.out.value("hosts", Json::array()) : Json();
  }

  plugin::Host& host_;
  TaskFacts& facts_;
  plugin::Registration heard_;
  // Tasks of this shell to be reported: until when to wait for their output.
  std::map<const task::Task*, event::Seconds> asked_here_;
  std::optional<event::Timer> answer_timer_;
  // On the leader.
  struct Arrival {
    double at;  // by clock_now()
    value::Idset ranks;
    exits::Record record;
  };
  std::vector<Arrival> arrivals_;  // the first failures
  value::Idset victims_;           // tasks that the job's end has ended
  value::Idset gone_;              // tasks that left with their shells, which is no failure
  std::map<std::string, value::Idset::Id> representatives_;  // one task for each way to end, by the record's text
  value::Idset asked_, waited_for_;                          // tasks
  std::map<value::Idset::Id, Json> known_;                   // by rank
  std::map<value::Idset::Id, double> asked_at_;              // by clock_now()
  FailureDigests digests_;
  FailureEvidence evidence_;
  std::uint64_t failed_ = 0;  // tasks that failed while they ran
  bool waits_for_digests_ = false, waits_for_evidence_ = false;
  Json left_ = Json::array();  // processes
  std::uint64_t more_left_ = 0;
  Json timeline_ = Json::array();
  std::optional<event::Timer> finish_timer_;
  bool holds_ = false;
  bool hangs_ = false;          // the doctor has found that the job hangs
  Json hung_ = Json::object();  // what it has found last, since the last restart
};

using Ranks = value::Idset;

// How long failures are gathered for one line: at first very shortly, so that the line comes at once but is one
// line if all tasks fail together; later the longer, the more lines there have been, until no task fails for a
// while.
constexpr event::Seconds kFirstWait{0.02};
constexpr event::Seconds kSecondWait{0.15};
constexpr event::Seconds kLongestWait{2.0};
// How often it is looked whether the tasks' output has come out, and for how long.
constexpr event::Seconds kLookAtOutput{0.02};
constexpr event::Seconds kMostDelay{1.0};
// The most ranges in one line, and in a moment; of more only the number is given.
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

// "3, 7-9 on n1, 12 on n2"; without hosts if there are many, or unknown ones.
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

// Names failing tasks, in one line for all on all nodes that fail alike within a moment: "task 3, 7-9 on n1: exit
// code 3". Their output comes out first.
class FailureNaming {
 public:
  // The host has to outlive this object.
  explicit FailureNaming(plugin::Host& host) : host_(host) {}

  // These tasks have ended by themselves, or could not be started.
  Result<void> add(const Ranks& ranks, const exits::Record& record) {
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

  // Names the waiting tasks now.
  void finish() {
    timer_.reset();
    report(std::exchange(failed_, {}));
  }

 private:
  using Failed = std::map<std::string, value::Idset>;  // by the text of their record

  void look() {
    Failed ready = event::clock_now() - waits_since_ < kMostDelay ? take_ready() : std::exchange(failed_, {});
    report(std::move(ready));
    if (failed_.empty())
      timer_.reset();
    else
      timer_->start(kLookAtOutput);
  }

  // The tasks whose output has come out.
  Failed take_ready() {
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

  void report(Failed failed) {
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

  plugin::Host& host_;
  Failed failed_;  // tasks that are not named yet
  std::optional<event::Timer> timer_;
  event::Seconds wait_{};         // before the next line
  event::Seconds waits_since_{};  // for output
  std::optional<event::Seconds> named_at_;
};

// ---- naming -----------------------------------------------------------------------------

enum class Extent : std::uint8_t { off, line, full };

constexpr std::size_t kMostTerminationLine = 2047;  // bytes; Kubernetes reads two lines, with their newlines

// Kubernetes shows this text as the reason why a container has ended: the report's first line, what went wrong, and
// its last, the exit code. The usual file exists in each container; a file that somebody has named is made.
void write_termination_log(const std::string& report) {
  const std::string given = own_variable("NACRE_TERMINATION_LOG").value_or("");
  const std::string path = given.empty() ? "/dev/termination-log" : given;
  const int make = given.empty() ? 0 : O_CREAT;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | make, 0644));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) < 0 || !S_ISREG(status.st_mode) || ::ftruncate(fd.get(), 0) < 0) return;
  const std::vector<std::string_view> lines = split(trim(report), '\n');
  std::string text(lines.front().substr(0, kMostTerminationLine));
  text += '\n';
  if (lines.size() > 1) text += fmt::format("{}\n", lines.back().substr(0, kMostTerminationLine));
  static_cast<void>(write_all(fd.get(), text));  // there is no better place for an error
}

class ExitReport final : public plugin::Plugin {
 public:
  explicit ExitReport(plugin::Host& host)
      : Plugin("exit-report"), host_(host), naming_(host), facts_(host), report_(host, facts_) {
    // With the option health a bad host may end the job before shell.init.
    for (const char* topic : {"shell.pre-init", "shell.init"}) on(topic, [this] { return prepare(); });
    on<plugin::TasksExited>([this](const plugin::TasksExited& exited) { return tasks_exited(exited); });
    on("shell.exit", [this] { naming_.finish(); });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at(name());
    // An instance of Flux takes what a job shell prints for messages.
    if (!option && host_.instance() != nullptr) extent_ = Extent::line;
    if (option && option->json() == "line") {
      extent_ = Extent::line;
    } else if (option && option->json() != "full") {
      Result<bool> on = host_.options().flag(name());
      if (!on) return option->expected("off, line or full");
      extent_ = *on ? Extent::full : Extent::off;
    }
    if (host_.job().leads()) CHECK_OK(open_file());
    return {};
  }

  Result<void> open_file() {
    file_ = TRY(ReportFile::of_option(host_, {name(), "report", "the report"}));
    return {};
  }

  [[nodiscard]] Result<bool> has_file() const {
    return host_.options().at("report") || TRY(job::OnLeaderLost::read(host_.options())).launcher_has("report");
  }

  // In shell.init the exit policy is known. It may ask which failure was the first even if there is no report.
  Result<void> prepare() {
    if (!is_read_) CHECK_OK(read());
    is_read_ = true;
    const bool judges =
        extent_ == Extent::full || TRY(has_file()) || host_.exit_policy().kind() == exits::Policy::Kind::first;
    return !judges || std::exchange(judges_, true) ? Result<void>() : serve();
  }

  Result<void> serve() {
    auto option = host_.options().at("torch");
    bool torch = option && (option->json().is_object() || TRY(host_.options().flag("torch")));
    report_.serve();
    auto task = [this](const char* topic, auto act) { on(topic, [this, act] { act(*host_.current_task()); }); };
    task("task.init", [this, torch](task::Task& each) { facts_.prepare(each, torch); });
    task("task.fork", [this](task::Task& each) { facts_.started(each); });
    task("task.exit", [this](task::Task& each) { facts_.exited(each); });
    on("shell.start", [this] { return facts_.watch_memory(); });
    on("shell.processes-left",
       [this](plugin::Call& call) { report_.left(call.in.value("processes", Json::array())); });
    on("job.leader", [this]() -> Result<void> {
      if (!host_.job().leads()) return {};
      lead();
      return open_file();
    });
    const bool may_lead = TRY(job::OnLeaderLost::read(host_.options())).takes_over;
    if (host_.job().leads() || may_lead) note_changes();
    if (host_.job().leads()) lead();
    return {};
  }

  // If another shell may come to lead, all shells note what has become of the job.
  void note_changes() {
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { shell_lost(lost.shell); });
    on("job.tasks-moved", [this](plugin::Call& call) { report_.note("moved", call.in, event::wall_clock()); });
    on("job.resized", [this](plugin::Call& call) { report_.note("resized", call.in, event::wall_clock()); });
    on("job.tasks-restart", [this](plugin::Call& call) { report_.note("restart", call.in, event::wall_clock()); });
    on("doctor.hang", [this](plugin::Call& call) { report_.note("hang", call.in, event::wall_clock()); });
    on("job.slow", [this](plugin::Call& call) { report_.note("slow", call.in, event::wall_clock()); });
    on("rehearse.event", [this](plugin::Call& call) {
      report_.note("rehearsal", {{"done", call.in.value("event", "")}}, event::wall_clock());
    });
  }

  void lead() {
    on("shell.tasks-complete", [this] { return report_.finish(); });
    on("job.report", [this](plugin::Call& call) { call.out = report_.make(call.in); });
    ended_ = host_.on_ended([this](const Json& end) { job_ended(end); });
  }

  Result<void> tasks_exited(const plugin::TasksExited& exited) {
    if (!host_.job().leads()) return {};
    const value::Idset& ranks = exited.ranks;
    const exits::Record& record = exited.record;
    if (judges_) report_.tasks_ended(ranks, record, event::wall_clock());
    bool is_own_end =
        record.kind() == exits::Record::Kind::ended || record.kind() == exits::Record::Kind::not_started;
    if (extent_ == Extent::off || !is_own_end || !host_.exit_policy().is_failure(record)) return {};
    if (host_.sent_to_tasks(record.status()->ending_signal())) return {};
    return naming_.add(ranks, record);
  }

  void shell_lost(std::uint32_t shell) {
    report_.note("lost", {{"shell", shell}}, event::wall_clock());
    if (host_.job().leads()) report_.lost(shell);
  }

  void job_ended(const Json& end) {
    bool failed = end.at("exit").at("code") != 0;
    report_.note("end", {{"code", end.at("exit").at("code")}}, event::wall_clock());
    Json report = report_.make(end);
    if (file_) file_->write(report);
    if (failed) write_termination_log(exits::report_text(report));
    if (failed && extent_ == Extent::full) show(report);
  }

  // With only errors shown, the lines that name the tasks are enough.
  void show(const Json& report) {
    plugin::TaskOutput* output = host_.task_output();
    if (output != nullptr && output->takes_events()) return output->put_event("failure", report);
    if (!report_.has_news() || !host_.log().wants(Level::notice)) return;
    plugin::Call listed("job.listed");
    bool is_listed = host_.stack().call(listed).has_value() && listed.out.contains("id");
    std::string text = exits::report_text(report, is_listed ? listed.out["id"].get<std::string>() : "");
    const std::size_t first = text.find('\n');  // the end of the line that says what went wrong
    print_err(coloured(Colour::red, text.substr(0, first)) + text.substr(std::min(first, text.size())));
  }

  plugin::Host& host_;
  Extent extent_ = Extent::full;
  bool is_read_ = false;
  bool judges_ = false;  // which failure was the first
  FailureNaming naming_;
  TaskFacts facts_;
  FailureReport report_;
  std::unique_ptr<ReportFile> file_;
  plugin::Registration ended_;
};

}  // namespace

PluginPtr make_exit_report(plugin::Host& host) { return std::make_unique<ExitReport>(host); }

}  // namespace nacre::plugins
