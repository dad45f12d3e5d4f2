// SPDX-License-Identifier: Apache-2.0
//
// control: a job that runs is in the list of jobs (record/places.hpp) and can be reached through its leader's
// socket (control/server.hpp), for `nacre jobs`, `ps`, `kill`, `attach` and the like. The entry and the socket are
// made a moment after the tasks have started: a job that is over by then only leaves how it has ended. With -o
// control=off there is neither. A standalone shell has both only with -o control.

#include <gnu/libc-version.h>
#include <link.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>

#include "base/program.hpp"
#include "base/text.hpp"
#include "control/message.hpp"
#include "control/server.hpp"
#include "doctor/findings.hpp"
#include "event/clock.hpp"
#include "exits/job_end.hpp"
#include "exits/report_text.hpp"
#include "job/environment.hpp"
#include "job/job.hpp"
#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugin/host.hpp"
#include "plugin/plan.hpp"
#include "plugin/tags.hpp"
#include "plugins/builtins.hpp"
#include "plugins/control/execs.hpp"
#include "plugins/control/questions.hpp"
#include "plugins/control/viewers.hpp"
#include "plugins/doctor/stack_taker.hpp"
#include "plugins/output/options.hpp"
#include "plugins/pty/pty.hpp"
#include "plugins/timeline/timeline.hpp"
#include "record/entry.hpp"
#include "record/places.hpp"
#include "record/shareable.hpp"
#include "timeline/summary.hpp"
#include "timeline/trace.hpp"
#include "usage/table.hpp"
#include "version.hpp"

namespace nacre::plugins {

// ---- answers ----------------------------------------------------------------------------
//
// What the leader of a job answers to its front ends: doc/control.md has the requests.

namespace {

constexpr std::size_t kRowsInPart = 2048;    // of an answer that comes in parts: far below a frame's limit
constexpr std::size_t kEventsInPart = 1024;  // of an answer that comes in parts
constexpr std::size_t kMostInPart = std::size_t{256} << 10;    // bytes of rows in a part
constexpr std::size_t kMostUsage = std::size_t{512} << 10;     // bytes of the answer: below a frame's limit
constexpr std::size_t kMostHostBytes = std::size_t{64} << 10;  // bytes of the hosts' names

}  // namespace

class Answers {
 public:
  // What is sent for one request: any number of parts, then the answer.
  struct Reply {
    std::function<void(Json)> part;
    std::function<void(const Result<Json>&)> answer;
  };

  Answers(plugin::Host& host, Questions& questions) : host_(host), questions_(questions) {}

  // The tasks that have terminals.
  void set_terminals(value::Idset ranks) { terminals_ = std::move(ranks); }

  // The job has ended: nothing can be done to it any more. `summary`: exits::summary().
  void job_ended(const Json& summary) { summary_ = summary; }

  // `entry`: the job's, in the list of jobs.
  void serve(const control::ControlRequest& request, const record::JobEntry& entry, Reply reply) {
    const std::string& action = request.action;
    if (action == "status") return reply.answer(status(entry));
    if (action == "exits") return reply.answer(exits());
    if (action == "report") return reply.answer(report_so_far());
    if (action == "signal") return reply.answer(send_signal(request.arguments));
    if (action == "cancel") return reply.answer(cancel());
    if (action == "usage") return usage(request.arguments, reply);
    if (action == "ps") return processes(request.arguments, std::move(reply));
    if (action == "plan") return places(reply);
    if (action == "timeline") return timeline(request.arguments, reply);
    if (action == "doctor") return examine(request.arguments, std::move(reply));
    reply.answer(Error{
        ENOSYS, fmt::format("{:.64}: not known to the job's shells, which are of nacre {}", action, kVersion)});
  }

  // The tasks that have not ended for good.
  [[nodiscard]] value::Idset running() const {
    if (!summary_.is_null()) return {};
    auto last = static_cast<value::Idset::Id>(host_.job().tasks() - 1);
    return value::Idset::range(0, last) - host_.outcomes().ranks();
  }

  // The job's exit code by its tasks alone, once all have ended. None: some run, or the job is ended for another
  // reason.
  [[nodiscard]] std::optional<int> code_of_tasks() const {
    if (!summary_.is_null()) return summary_.at("exit").value("code", 1);
    if (host_.ending() || !running().empty()) return std::nullopt;
    exits::JobEnd end;
    for (int signum = 1; signum <= SIGRTMAX; ++signum) {
      if (host_.sent_to_tasks(signum)) end.sent_to_tasks(signum);
    }
    return end.code(host_.outcomes(), host_.exit_policy());
  }

  // What the plugin exit-report knows so far, or null. `summary`: of the job's end, or {}.
  [[nodiscard]] Json report(const Json& summary) const {
    plugin::Call call("job.report");
    call.in = summary;
    if (!host_.stack().call(call)) return {};
    return call.out.empty() ? Json() : std::move(call.out);
  }

  // What the plugin usage knows so far, in at most `most` bytes; null: it measures nothing. `cells`: how many cells
  // measures by rank have, at most.
  [[nodiscard]] Json usage(std::size_t most, std::size_t cells) const {
    plugin::Call call("job.usage");
    call.in["cells"] = cells;
    if (!host_.stack().call(call) || !call.out.is_object() || call.out.empty()) return {};
    return usage::fitting_summary(std::move(call.out), most);
  }

  // What the entry of a job that has ended keeps of its timeline; null: it has none.
  [[nodiscard]] Json timeline() const {
    TimelineSource* source = timeline_of(host_);
    return source == nullptr ? Json() : source->kept();
  }

 private:
  [[nodiscard]] Json status(const record::JobEntry& entry) const {
    Json out{{"id", entry.id.f58_plain()}, {"name", entry.name},
             {"tasks", entry.tasks},       {"shells", entry.shells},
             {"started", entry.started},   {"running", running().size()},
             {"ending", host_.ending()},   {"state", summary_.is_null() ? "running" : "ended"}};
    if (!summary_.is_null()) out["code"] = summary_.at("exit").at("code");
    if (!terminals_.empty()) out["terminals"] = terminals_.str();
    if (!questions_.gone().empty()) out["gone"] = questions_.gone().str();
    if (auto hosts = this->hosts()) out["hosts"] = *std::move(hosts);
    return out;
  }

  // none: they have no names, or too many
  [[nodiscard]] std::optional<std::string> hosts() const {
    value::Hostlist hosts;
    for (const auto& node : host_.job().resources.nodes) {
      if (node.hostname.empty()) return std::nullopt;  // R need not name its hosts
      hosts.append(node.hostname);
    }
    std::string text = hosts.str();
    return text.size() <= kMostHostBytes ? std::optional(std::move(text)) : std::nullopt;
  }

  [[nodiscard]] Json exits() const {
    return {{"running", running().str()}, {"exits", record::exits_of(exits_by_record())}};
  }

  [[nodiscard]] Json report_so_far() const {
    Json summary = summary_;
    if (summary.is_null()) summary = {{"tasks", exits_by_record()}};
    Json report = this->report(summary);
    return {{"running", running().str()}, {"report", report.is_null() ? Json() : record::fitting_report(report)}};
  }

  Result<Json> send_signal(const Json& arguments) {
    JsonAt at = JsonAt::root(arguments);
    auto signum = static_cast<int>(TRY(TRY(at.at("signal")).integer(1, SIGRTMAX)));
    value::Idset targets = running();
    std::optional<value::Idset> only;
    if (auto ranks = TRY(at.find("ranks"))) {
      auto named = value::Idset::parse(TRY(ranks->string()));
      if (!named) return ranks->error(named.error().message);
      if (auto last = named->last(); last && *last >= host_.job().tasks())
        return invalid(fmt::format("no rank {}: the job has ranks 0-{}", *last, host_.job().tasks() - 1));
      targets = targets & *named;
      only = targets;
    }
    if (targets.empty())
      return Error{ESRCH, only ? "none of these tasks runs any more" : "no task of the job runs any more"};
    host_.signal_tasks(signum, only);
    return Json{{"sent", targets.str()}};
  }

  Result<Json> cancel() {
    if (!summary_.is_null() || host_.ending()) return Error{EALREADY, "the job is ending already"};
    host_.raise({"cancel", 0, "ended by nacre cancel", value::WaitStatus::killed(SIGTERM)});
    return Json::object();
  }

  // Sends parts of a bounded size.
  void processes(const Json& arguments, Reply reply) {
    bool has_gpus = arguments.value("gpu", Json()) == true;
    auto done = [this, reply, has_gpus](const std::vector<TaskProcess>& all, const value::Idset& late,
                                        const Questions::Notes& notes) {
      Json tasks = Json::array();
      Json spawned = Json::array();
      for (const TaskProcess& each : all) {
        if (tasks.size() + spawned.size() == kRowsInPart)
          reply.part(
              {{"tasks", std::exchange(tasks, Json::array())}, {"spawned", std::exchange(spawned, Json::array())}});
        (each.origin ? spawned : tasks).push_back(row_of(each));
      }
      Json spares = Json::array();
      for (std::uint32_t shell : (host_.job().spare_shells() - questions_.gone()).ids())
        spares.push_back({{"spare", true}, {"host", host_.job().hostname_of(shell)}, {"shell", shell}});
      Json last{{"tasks", std::move(tasks)},
                {"spawned", std::move(spawned)},
                {"late", hosts_of(late)},
                {"spares", std::move(spares)}};
      if (has_gpus || !notes.empty()) last["notes"] = notes;
      reply.answer(last);
    };
    auto refused = [reply](const Error& why) { reply.answer(why); };
    if (has_gpus) return questions_.ask_processes_with_gpus(done, refused);
    if (Result<void> asked = questions_.ask_processes(done); !asked) reply.answer(asked.error());
  }

  // Sends parts of a bounded size, as reasons are long.
  void places(const Reply& reply) {
    auto done = [this, reply](const std::vector<TaskPlace>& all, const value::Idset& late,
                              const Questions::Notes&) {
      Json rows = Json::array();
      std::size_t bytes = 0;
      for (const TaskPlace& each : all) {
        if (bytes > kMostInPart) reply.part({{"tasks", std::exchange(rows, Json::array())}});
        if (rows.empty()) bytes = 0;
        auto shell = host_.job().taskmap.node_of(each.rank);
        Json why{
            {"cpus", each.cpus.why}, {"memory", each.memory.why}, {"gpus", each.gpus.why}, {"nics", each.nics.why}};
        rows.push_back({{"rank", each.rank},
                        {"host", shell ? host_.job().hostname_of(*shell) : ""},
                        {"shell", shell ? Json(*shell) : Json()},
                        {"pid", each.pid},
                        {"exe", each.executable},
                        {"cpus", each.cpus.where},
                        {"memory", each.memory.where},
                        {"gpus", each.gpus.where},
                        {"nics", each.nics.where},
                        {"why", std::move(why)},
                        {"cpus_now", each.cpus_now},
                        {"unset", each.unset}});
        bytes += dump_json(rows.back()).size();
      }
      reply.answer(Json{{"tasks", std::move(rows)}, {"late", hosts_of(late)}});
    };
    if (Result<void> asked = questions_.ask_places(done); !asked) reply.answer(asked.error());
  }

  // A row of `ps`. The shells give all of it but hosts and tries, which the leader adds.
  [[nodiscard]] Json row_of(const TaskProcess& process) const {
    const auto& job = host_.job();
    Result<std::uint32_t> shell =
        process.origin ? Result<std::uint32_t>(process.origin->shell) : job.taskmap.node_of(process.rank);
    // Set member by member, which is several times as fast as a list of members: `nacre top` asks for this often.
    Json row = Json::object();
    if (process.origin) row["spawn"] = process.origin->spawn;
    row["rank"] = process.rank;
    row["host"] = shell ? host_.job().hostname_of(*shell) : "";
    row["shell"] = shell ? Json(*shell) : Json();
    row["pid"] = process.pid;
    row["state"] = process.state;
    if (process.origin) {
      row["task"] = process.origin->task;
    } else {
      row["try"] = job.attempt_of(process.rank);
    }
    row["time"] = process.elapsed;
    row["cpu"] = process.elapsed > 0 ? process.cpu / process.elapsed : 0;
    row["rss"] = process.memory;
    row["command"] = process.program;
    if (process.gpu && process.gpu->memory) row["gpu_memory"] = *process.gpu->memory;
    if (process.gpu && process.gpu->device_use) row["gpu_device_use"] = *process.gpu->device_use;
    return row;
  }

  [[nodiscard]] Json hosts_of(const value::Idset& shells) const {
    Json out = Json::array();
    for (std::uint32_t shell : shells.ids()) out.push_back(host_.job().hostname_of(shell));
    return out;
  }

  // Groups come in parts of a bounded size, then the rest.
  void examine(const Json& arguments, Reply reply) {
    Examiner* examiner = examiner_of(host_);
    if (examiner == nullptr) return reply.answer(Error{ENOTSUP, "the job's shells have another plugin doctor"});
    auto order = ExaminationOrder::parse(arguments);
    if (!order) return reply.answer(order.error());
    auto done = [reply, by_rank = order->by_rank](const Examined& examined) {
      Json groups = Json::array();
      std::size_t bytes = 0;
      for (const doctor::TaskGroup& each : by_rank ? examined.rows : examined.examination.groups) {
        if (bytes > kMostInPart) reply.part({{"groups", std::exchange(groups, Json::array())}});
        if (groups.empty()) bytes = 0;
        groups.push_back(each.json());
        groups.back()["hosts"] = doctor::hosts_of(each.ranks, examined.examination);
        bytes += dump_json(groups.back()).size();
      }
      Json answer = examined.examination.json();
      answer["groups"] = std::move(groups);
      for (const doctor::Verdict& each : examined.verdicts) answer["verdicts"].push_back(each.json());
      reply.answer(std::move(answer));
    };
    auto silent = [reply](const std::vector<doctor::Absent>& absent) {
      Json verdicts = Json::array();
      for (const doctor::Verdict& each : doctor::verdicts_of_absent(absent)) verdicts.push_back(each.json());
      reply.part({{"silent", std::move(verdicts)}});
    };
    if (Result<void> begun = examiner->examine(*order, done, silent); !begun) reply.answer(begun.error());
  }

  // The rows come first, in parts.
  void usage(const Json& arguments, const Reply& reply) const {
    JsonAt at = JsonAt::root(arguments);
    std::size_t cells = usage::kFewCells;
    if (auto given = at.find("cells"); given && *given) {
      auto number = (*given)->integer(1, usage::kMostCells);
      if (!number) return reply.answer(number.error());
      cells = static_cast<std::size_t>(*number);
    }
    Json summary = usage(kMostUsage, cells);
    Json next = arguments.value("rows", Json()) == true && !summary.is_null() ? Json(0) : Json();
    while (!next.is_null()) {
      plugin::Call call("job.usage");
      call.in["from"] = next;
      if (Result<int> called = host_.stack().call(call); !called) return reply.answer(called.error());
      reply.part({{"rows", call.out.value("rows", Json::array())}});
      next = call.out.value("next", Json());
    }
    reply.answer(Json{{"usage", std::move(summary)}});
  }

  // With `trace`, the trace's events come first, in parts of a bounded size.
  void timeline(const Json& arguments, const Reply& reply) {
    TimelineSource* source = timeline_of(host_);
    if (source == nullptr || !source->is_on())
      return reply.answer(Error{ENODATA, "the job keeps no timeline: start it with --timeline, or -o timeline"});
    bool has_trace = arguments.value("trace", Json()) == true;
    auto done = [reply, has_trace](const timeline::JobTimeline& job) {
      timeline::Facts facts = timeline::facts_of(job);
      Json answer{{"summary", timeline::summary_of(job, facts).json()}};
      if (has_trace) {
        timeline::Trace trace = timeline::trace_of(job, facts);
        Json some = Json::array();
        for (const std::string& each : trace.events) {
          some.push_back(parse_json(each).value());
          if (some.size() == kEventsInPart) reply.part({{"events", std::exchange(some, Json::array())}});
        }
        if (!some.empty()) reply.part({{"events", std::move(some)}});
        answer["about"] = std::move(trace.about);
      }
      reply.answer(std::move(answer));
    };
    if (Result<void> begun = source->collect(done); !begun) reply.answer(begun.error());
  }

  [[nodiscard]] Json exits_by_record() const {
    if (!summary_.is_null()) return summary_.value("tasks", Json::object());
    Json out = Json::object();
    for (const auto& [record, ranks] : host_.outcomes().classes()) out[record.str()] = ranks.str();
    return out;
  }

  plugin::Host& host_;
  Questions& questions_;
  value::Idset terminals_;
  Json summary_;  // null: the job runs
};

// ---- changes ----------------------------------------------------------------------------
//
// Changes of a running job, on the leader: `nacre shrink`, `nacre grow` and `nacre restart`.

// `nacre grow`, on the leader: what a front end asks for, and what it gets (doc/control.md, "grow").
class GrowService {
 public:
  explicit GrowService(plugin::Host& host) : host_(host) {}

  void serve(const Json& arguments, const Answers::Reply& reply) {
    auto order = value::GrowOrder::parse(JsonAt::root(arguments));
    if (!order) return reply.answer(order.error());
    host_.grow(*order, [reply](const Result<Json>& news, bool is_last) {
      if (is_last) return reply.answer(news);
      if (news) reply.part(*news);
    });
  }

 private:
  plugin::Host& host_;
};

namespace {

constexpr std::string_view kOrdered = "shell.restart-order";    // doc/protocol.md
constexpr std::string_view kRefused = "shell.restart-refused";  // doc/protocol.md

void refuse(Json& refused, const value::Idset& ranks, const std::string& why) {
  if (!ranks.empty()) refused.push_back({{"ranks", ranks.str()}, {"why", why}});
}

}  // namespace

// `nacre restart`, on the leader: what a front end asks for, and what it gets (doc/control.md, "restart"). The
// shells perform it (core/shell_restart.hpp).
class RestartService {
 public:
  explicit RestartService(plugin::Host& host) : host_(host) {}

  // `running`: the tasks that have not ended for good.
  void serve(const Json& arguments, const Answers::Reply& reply, const value::Idset& running) {
    auto open = read(arguments, running);
    if (!open) return reply.answer(open.error());
    open->reply = reply;
    Json order = Json::object();
    if (arguments.contains("ranks")) order["ranks"] = open->waiting.str();
    const bool is_needed = !open->waiting.empty();
    open_.push_back(*std::move(open));
    if (!announced_.active())
      announced_ = host_.on_announcement(
          [this](std::string_view topic, std::string_view bytes) { announced(topic, bytes); });
    if (is_needed) {
      if (Result<void> sent = host_.announce(kOrdered, dump_json(order)); !sent) {
        open_.pop_back();
        return reply.answer(sent.error());
      }
    }
    answer_complete();
  }

  // `what`: the members of job.tasks-restart or job.tasks-moved.
  void started(const Json& what) {
    auto ranks = value::Idset::parse(what.value("ranks", ""));
    if (!ranks) return;
    for (Open& each : open_) {
      each.started.insert(each.waiting & *ranks);
      each.waiting = each.waiting - *ranks;
    }
    answer_complete();
  }

  // The job has `tasks` tasks from now on.
  void resized(std::uint64_t tasks) {
    const value::Idset left = value::Idset::range(0, static_cast<value::Idset::Id>(tasks - 1));
    for (Open& each : open_) {
      refuse(each.refused, each.waiting - left, "the job has fewer tasks now");
      each.waiting = each.waiting & left;
    }
    answer_complete();
  }

  // These tasks have ended for good.
  void ended(const value::Idset& ranks) { refused(ranks, "it has ended"); }

  void job_ended() {
    for (Open& each : std::exchange(open_, {})) each.reply.answer(Error{ECANCELED, "the job has ended meanwhile"});
  }

 private:
  struct Open {
    Answers::Reply reply;
    value::Idset waiting;  // tasks whose end, and next start, are waited for
    value::Idset started = {};
    Json refused = Json::array();
  };

  Result<Open> read(const Json& arguments, const value::Idset& running) const {
    if (!TRY(job::RestartOption::read(host_.options())).is_on())
      return Error{ENOTSUP,
                   "the job was started without --restart: --restart=on-request lets its tasks be started again"};
    if (host_.ending() || running.empty()) return Error{ECANCELED, "the job is ending"};
    auto ranks = TRY(JsonAt::root(arguments).find("ranks"));
    if (!ranks) return Open{{}, running};
    auto wanted = TRY(value::Idset::parse(TRY(ranks->string())));
    if (wanted.empty()) return ranks->expected("at least one rank");
    auto last = static_cast<value::Idset::Id>(host_.job().tasks() - 1);
    if (value::Idset beyond = wanted - value::Idset::range(0, last); !beyond.empty())
      return Error{EINVAL, fmt::format("there is no rank {}: the job has rank{}", beyond.str(),
                                       last == 0 ? " 0" : fmt::format("s 0-{}", last))};
    Open out{{}, wanted & running};
    refuse(out.refused, wanted - running, "it has ended");
    return out;
  }

  void announced(std::string_view topic, std::string_view bytes) {
    if (topic != kRefused) return;
    auto json = parse_json(bytes);
    if (!json || !json->is_object()) return;
    auto ranks = value::Idset::parse(json->value("ranks", ""));
    if (ranks) refused(*ranks, json->value("why", ""));
  }

  void refused(const value::Idset& ranks, const std::string& why) {
    for (Open& each : open_) {
      refuse(each.refused, each.waiting & ranks, why);
      each.waiting = each.waiting - ranks;
    }
    answer_complete();
  }

  void answer_complete() {
    for (auto each = open_.begin(); each != open_.end();) {
      auto next = std::next(each);
      if (each->waiting.empty()) {
        Open done = std::move(*each);
        open_.erase(each);
        done.reply.answer(Json{{"ranks", done.started.str()}, {"refused", std::move(done.refused)}});
      }
      each = next;
    }
  }

  plugin::Host& host_;
  plugin::Registration announced_;
  std::list<Open> open_;
};

// `nacre shrink`, on the leader: what a front end asks for, and what it gets (doc/control.md, "shrink").
class ShrinkService {
 public:
  explicit ShrinkService(plugin::Host& host) : host_(host) {}

  void serve(const Json& arguments, const Answers::Reply& reply) {
    auto order = value::ShrinkOrder::parse(JsonAt::root(arguments), value::ShrinkOrder::Unknown::ignore);
    if (!order) return reply.answer(order.error());
    std::erase_if(open_, [](const plugin::Registration& each) { return !each.active(); });
    open_.push_back(host_.shrink(*order, [reply](const Result<Json>& news, bool is_last) {
      if (is_last) return reply.answer(news);
      if (news) reply.part(*news);
    }));
  }

 private:
  plugin::Host& host_;
  std::vector<plugin::Registration> open_;
};

struct Changes {
  explicit Changes(plugin::Host& host) : shrinks(host), grows(host), restarts(host) {}

  // False: it is another kind of request. `answers`: what is known of the tasks.
  bool take(const control::ControlRequest& request, const Answers::Reply& reply, const Answers& answers) {
    if (request.action == "shrink")
      shrinks.serve(request.arguments, reply);
    else if (request.action == "grow")
      grows.serve(request.arguments, reply);
    else if (request.action == "restart")
      restarts.serve(request.arguments, reply, answers.running());
    else
      return false;
    return true;
  }

  ShrinkService shrinks;
  GrowService grows;
  RestartService restarts;
};

// ---- input service ----------------------------------------------------------------------
//
// The request `input`, on the leader: a front end becomes the owner of the job's standard input, which goes to the
// tasks as the launcher's does (doc/control.md, "input"). There is one owner at a time.

inline constexpr std::size_t kInputCredit = std::size_t{64} << 10;  // bytes that an owner may send ahead
inline constexpr std::size_t kMostOwnerName = 256;                  // bytes

namespace {

constexpr const char* kInputStream = "stdin";

Error has_owner(const std::string& who) {
  return Error{EBUSY, fmt::format("the job's standard input is that of {}: --input=take takes it", who)};
}

}  // namespace

class InputService {
 public:
  using ClientId = control::ControlServer::ClientId;

  // `server`: of front ends; null while there is none.
  InputService(plugin::Host& host, std::function<control::ControlServer*()> server)
      : host_(host), server_(std::move(server)) {}

  void serve(ClientId client, const control::ControlRequest& request) {
    const bool follows = request.arguments.value("follows", false);
    if (follows && !is_known_) {
      launcher_.emplace(client, request.id);
      return;
    }
    Result<void> begun = follows ? begin_launcher(client, request.id) : begin(client, request);
    if (!begun) server_()->answer(client, request.id, begun.error());
  }

  // Data of any request; what does not come from the owner is dropped.
  void data(ClientId client, const control::StreamData& data) {
    if (!is_owner(client, data.id) || data.stream != kInputStream) return;
    owner_->uncredited += std::max<std::size_t>(data.data.size(), 1);
    if (host_.launcher_tie()->input()->write(data.data)) grant();
  }

  void end(ClientId client, const control::StreamEnd& end) {
    if (!is_owner(client, end.id) || end.stream != kInputStream) return;
    owner_.reset();
    host_.launcher_tie()->input()->end();
    if (auto* server = server_()) server->answer(client, end.id, Json{{"ended", true}});
  }

  void gone(ClientId client) {
    if (launcher_ && launcher_->first == client) launcher_.reset();
    if (!owner_ || owner_->client != client) return;
    owner_.reset();
    host_.launcher_tie()->input()->leave();
  }

  // ---- of another leader
  // The launcher is waited for, and then owns the input. Until it is known from which byte on it has to send, its
  // request waits.
  void await_launcher() { awaits_ = true; }

  // The launcher comes no more: the input has no owner.
  void give_up_launcher() {
    if (!std::exchange(awaits_, false)) return;
    if (auto* input = plugin::launchers_input(host_)) input->leave();
  }

  // The input goes on from byte `at`; none: nobody reads it any more.
  void goes_on(std::optional<std::uint64_t> at) {
    is_known_ = true;
    at_ = at;
    if (!launcher_) return;
    auto [client, id] = *std::exchange(launcher_, std::nullopt);
    Result<void> begun = begin_launcher(client, id);
    if (auto* server = server_(); !begun && server != nullptr) server->answer(client, id, begun.error());
  }

 private:
  struct Owner {
    ClientId client = 0;
    std::uint64_t id = 0;  // of its request
    std::string name;
    std::size_t uncredited = 0;  // bytes that it has sent, and not got new credit for
  };

  // The launcher's input, if a front end can take it now.
  Result<plugin::JobInput*> find(bool takes) const {
    if (host_.options().find("input.stdin.path") != nullptr)
      return Error{ENOTSUP, "the job's tasks read a file (input.stdin.path), and no standard input"};
    if (!host_.has_input())
      return Error{ENOTSUP,
                   "the job was started without standard input: nothing can be typed there; give nacre run one, or "
                   "with --detach -o input.when-left=open"};
    plugin::JobInput* input = plugin::launchers_input(host_);
    if (input == nullptr)
      return Error{
          ENOTSUP,
          "the job's tasks read the standard input with which shell 0 was started, by a manager or by nacre "
          "run on this host without a terminal: nobody else can have it"};
    if (input->has_ended()) return Error{EPIPE, "the job's standard input has ended"};
    if (!takes && owner_) return has_owner(owner_->name);
    if (!takes && (awaits_ || input->is_launchers())) return has_owner("the process that has started the job");
    return input;
  }

  Result<void> begin(ClientId client, const control::ControlRequest& request) {
    JsonAt at = JsonAt::root(request.arguments);
    bool takes = false;
    if (auto take = TRY(at.find("take"))) takes = TRY(take->boolean());
    Owner next{client, request.id, "a front end", 0};
    if (auto name = TRY(at.find("name")))
      next.name = escape_controls(TRY(name->string()).substr(0, kMostOwnerName));
    plugin::JobInput* input = TRY(find(takes));
    bool was_launchers = input->is_launchers();
    if (owner_) notify_former(next.name);
    if (was_launchers)
      host_.log().log(Level::warn, "control",
                      "the job's standard input is that of {} from now on: what is typed here goes nowhere",
                      next.name);
    begin_owner(*input, plugin::JobInput::For::other, std::move(next), Json::object());
    return {};
  }

  Result<void> begin_launcher(ClientId client, std::uint64_t id) {
    plugin::JobInput* input = plugin::launchers_input(host_);
    if (!at_ || input == nullptr || input->has_ended()) return Error{EPIPE, "the job's standard input has ended"};
    if (owner_) return has_owner(owner_->name);
    awaits_ = false;
    Owner next{client, id, "the process that has started the job", 0};
    begin_owner(*input, plugin::JobInput::For::launcher, std::move(next), {{"at", *at_}});
    return {};
  }

  void begin_owner(plugin::JobInput& input, plugin::JobInput::For whom, Owner next, const Json& answer) {
    owner_ = std::move(next);
    input.own(whom, [this] { grant(); });
    server_()->answer_part(owner_->client, owner_->id, answer);
    owner_->uncredited = kInputCredit;
    grant();
  }

  void notify_former(const std::string& by) {
    if (auto* server = server_()) server->answer(owner_->client, owner_->id, Json{{"taken", by}});
  }

  // There is room: what has come is on its way to the tasks.
  void grant() {
    auto* server = server_();
    if (!owner_ || server == nullptr || owner_->uncredited == 0) return;
    server->grant(owner_->client, owner_->id, std::exchange(owner_->uncredited, 0));
  }

  [[nodiscard]] bool is_owner(ClientId client, std::uint64_t id) const {
    return owner_ && owner_->client == client && owner_->id == id;
  }

  plugin::Host& host_;
  std::function<control::ControlServer*()> server_;
  std::optional<Owner> owner_;
  bool awaits_ = false;
  bool is_known_ = false;                                       // whether it is known where the input goes on
  std::optional<std::uint64_t> at_;                             // the byte where it goes on
  std::optional<std::pair<ClientId, std::uint64_t>> launcher_;  // the request that waits until that is known
};

// ---- details ----------------------------------------------------------------------------
//
// What a bundle for a ticket needs to know of a job, beyond its entry in the list of jobs (nacre-report(1),
// BUNDLES): the leader makes it when asked, and as a file beside the entry. It has no secrets, see
// record/shareable.hpp.

namespace {

constexpr const char* kSink = "control.details";
constexpr std::size_t kMostPart = std::size_t{64} << 10;   // bytes of options, of an environment, of events
constexpr std::size_t kMostPlan = std::size_t{192} << 10;  // bytes of the plan
constexpr std::size_t kMostFiles = 64;                     // files of output that are named

// Lists a library by its real file name: libfoo.so.1.2.3.
int take_library(dl_phdr_info* info, std::size_t /*size*/, void* to) {
  std::unique_ptr<char, decltype(&std::free)> path(::realpath(info->dlpi_name, nullptr), std::free);
  if (info->dlpi_name[0] == '/' && path) static_cast<Json*>(to)->push_back(path.get());
  return 0;
}

Json versions() {
  Json out{{"nacre-shell", kVersion}, {"built_with", kBuiltWith}, {"libc", ::gnu_get_libc_version()}};
  utsname system{};
  if (::uname(&system) == 0)
    out["kernel"] = fmt::format("{} {} {} {}", system.sysname, system.release, system.version, system.machine);
  out["libraries"] = Json::array();
  ::dl_iterate_phdr(take_library, &out["libraries"]);
  return out;
}

Json environment_json(const job::Environment& environment) {
  Json names = Json::array(), values = Json::object();
  std::size_t bytes = 0;
  std::size_t left_out = 0;
  for (const auto& [name, value] : environment.all()) {
    bool shows = record::may_show(name, value);
    bytes += name.size() + (shows ? name.size() + value.size() : 0);
    if (bytes > kMostPart) {
      ++left_out;
      continue;
    }
    names.push_back(name);
    if (shows) values[std::string(name)] = value;
  }
  Json out{{"names", std::move(names)}, {"values", std::move(values)}};
  if (left_out > 0) out["names_left_out"] = left_out;
  return out;
}

// Calls `take` with each value that is no object, and its dotted path.
void each_value(const Json& value, const std::string& path,
                const std::function<void(const std::string&, const Json&)>& take) {
  if (!value.is_object() || value.empty()) {
    if (!path.empty()) take(path, value);
    return;
  }
  for (const auto& [name, member] : value.items())
    each_value(member, path.empty() ? name : path + '.' + name, take);
}

// The first and the last events.
Json events_json(const std::vector<Json>& events) {
  constexpr std::size_t kFirst = 16;
  Json out = Json::array();
  std::size_t bytes = 0;
  std::size_t first = events.size();
  while (first > kFirst && (bytes += dump_json(events[first - 1]).size()) <= kMostPart) --first;
  if (first <= kFirst) first = std::min(first, kFirst);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i < kFirst || i >= first) out.push_back(record::json_without_secrets(events[i]));
  }
  return out;
}

// Drops lines from the beginning until the rest is short enough.
void shorten(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  std::size_t newline = text.find('\n', text.size() - most);
  text.erase(0, newline == std::string::npos ? text.size() - most : newline + 1);
}

// Bytes that are no text take more room in JSON.
Json fitting(Json all, std::size_t most) {
  if (dump_json(all).size() <= most) return all;
  for (const char* part : {"output", "messages"}) {
    for (auto text = all[part].get<std::string>(); dump_json(all).size() > most && !text.empty();) {
      shorten(text, text.size() / 2);
      all[part] = text;
    }
  }
  for (const char* part : {"plan", "doctor", "events", "environment", "shell_environment", "options"}) {
    if (dump_json(all).size() <= most) break;
    all[part] = nullptr;
  }
  return all;
}

}  // namespace

class Details : Noncopyable {
 public:
  static constexpr std::size_t kMostTail = std::size_t{64} << 10;  // bytes of messages, and of output
  static constexpr std::size_t kTasksKept = 32;                    // tasks whose plan is in the file
  static constexpr std::size_t kTasksAsked = 4096;                 // tasks whose plan is in an answer

  explicit Details(plugin::Host& host) : host_(host) {}

  ~Details() {
    if (keeps_) host_.log().remove_sink(kSink);
  }

  // In shell.init, on the leader: from here on the last messages of the shells are kept. `also` gets each as a line
  // without its newline, as they come out.
  void keep_messages(std::function<void(const std::string& line)> also = {}) {
    keeps_ = true;
    host_.log().add_sink(kSink, [this, also = std::move(also)](const LogEntry& entry) {
      if (also) also(log_line(entry, host_.job().shell_rank));
      std::string from = entry.shell ? fmt::format("[shell {}] ", *entry.shell) : "";
      std::string component = entry.component.empty() ? "" : entry.component + ": ";
      messages_.push_back(fmt::format("{}{}: {}{}\n", from, level_name(entry.level), component, entry.message));
      size_ += messages_.back().size();
      for (; size_ > kMostTail && !messages_.empty(); messages_.pop_front()) size_ -= messages_.front().size();
    });
  }

  // An object, of at most `most` bytes of text; long members lose their beginning, or their rest. `tasks`: how many
  // tasks of this shell have their plan in it. `output`: the last output at the job's standard output and error.
  [[nodiscard]] Json make(std::size_t most, std::size_t tasks, std::string output) const {
    std::string messages;
    for (const std::string& each : messages_) messages += each;
    shorten(output, kMostTail);
    Examiner* examiner = examiner_of(host_);
    return fitting({{"format", 1},
                    {"versions", versions()},
                    {"options", options()},
                    {"environment", environment_json(host_.environment())},
                    {"shell_environment", environment_json(job::Environment::own())},
                    {"plan", plan(tasks)},
                    {"files", files()},
                    {"events", events_json(host_.events().events())},
                    {"doctor", examiner == nullptr ? Json() : examiner->last_look()},
                    {"output", record::text_without_secrets(output)},
                    {"messages", record::text_without_secrets(messages)}},
                   most);
  }

 private:
  [[nodiscard]] Json options() const {
    Json out = Json::array();
    job::Options given(host_.job().spec.options);
    const auto& setters = host_.options().setters();
    std::size_t bytes = 0;
    each_value(host_.options().json(), "", [&](const std::string& path, const Json& value) {
      std::string from;
      for (std::string part = path; from.empty() && !part.empty();) {
        if (auto setter = setters.find(part); setter != setters.end()) from = setter->second;
        std::size_t dot = part.rfind('.');
        part.resize(dot == std::string::npos ? 0 : dot);
      }
      const Json* asked = given.find(path);
      if (from.empty() && host_.options().is_of_argument(path)) from = "command line";
      if (from.empty()) from = asked != nullptr && *asked == value ? "jobspec" : "a plugin";
      Json shown = record::is_secret_name(path) ? Json(record::kLeftOut) : record::json_without_secrets(value);
      bytes += path.size() + dump_json(shown).size();
      out.push_back({{"name", path}, {"value", bytes > kMostPart ? Json("(too long)") : shown}, {"from", from}});
    });
    return out;
  }

  // The command may have secrets in it.
  [[nodiscard]] Json plan(std::size_t tasks) const {
    plugin::PlanPartOptions options{tasks, record::may_show};
    const job::Job& job = host_.job();
    Json part = plugin::plan_part(host_, {}, options);
    part.erase("options");
    part.erase("setters");
    part["options"] = Json::object();
    part["setters"] = Json::object();
    std::string text = plugin::merged_plan(job, {}, {{job.shell_rank, part}}, true);
    std::size_t begin = text.find("\ncommand "), end = text.find("\ntasks ", begin);
    if (begin == std::string::npos || end == std::string::npos) return nullptr;
    std::string command;
    for (const std::string& each : record::words_without_secrets(job.spec.command))
      command += " " + in_quotes(each);
    text.replace(begin, end - begin, "\ncommand  " + command);
    // Options have a member of their own.
    std::size_t own = text.find("\noptions, and where they come from\n");
    if (own != std::string::npos) text.erase(own, text.find("\nplugins, in order\n", own) - own);
    for (const char* each : {"options", "setters", "files"}) part.erase(each);
    Json out{{"shell", job.shell_rank}, {"host", job.node().hostname}, {"text", text}, {"part", std::move(part)}};
    if (host_.tasks().size() > tasks) out["tasks_left_out"] = host_.tasks().size() - tasks;
    std::size_t shown = std::min(tasks, host_.tasks().size());
    if (shown <= 1 || dump_json(out).size() <= kMostPlan) return out;
    return plan(shown / 2);
  }

  // The files of this shell's tasks; a template if the files of other tasks cannot be named here.
  [[nodiscard]] Json files() const {
    Json out = Json::array();
    auto options = OutputOptions::read(host_.options());
    if (!options) return out;
    std::error_code failed;
    std::filesystem::path directory = host_.job().spec.cwd.value_or(std::filesystem::current_path(failed).native());
    auto add = [&](io::Stream stream, const std::string& path) {
      Json file{{"stream", io::name_of(stream)}, {"path", (directory / path).lexically_normal().native()}};
      bool is_new = std::none_of(out.begin(), out.end(),
                                 [&](const Json& each) { return member_of(each, "path") == file["path"]; });
      if (is_new && out.size() < kMostFiles) out.push_back(std::move(file));
    };
    for (io::Stream stream : io::kStreams) {
      const StreamOptions& of = options->streams.at(static_cast<std::size_t>(stream));
      if (!of.has(OutputType::file)) continue;
      auto differs = plugin::differs_by_rank(host_, of.path);
      if (!differs) continue;
      if (!*differs) {
        if (auto path = plugin::render_tags(host_, of.path)) add(stream, *path);
        continue;
      }
      for (const auto& task : host_.tasks()) {
        if (auto path = plugin::render_tags(host_, of.path, {std::nullopt, task.get()})) add(stream, *path);
      }
      if (host_.job().shells() > 1 || host_.tasks().size() > kMostFiles)
        out.push_back({{"stream", io::name_of(stream)}, {"template", of.path}});
    }
    return out;
  }

  plugin::Host& host_;
  bool keeps_ = false;
  std::deque<std::string> messages_;  // lines
  std::size_t size_ = 0;              // bytes of these
};

// ---- own entry --------------------------------------------------------------------------
//
// The entry of this job in the list of jobs, as its leader makes it.

// Why a place is not taken.
using OnOtherPlace = std::function<void(const std::string& why)>;

namespace {

record::Manager manager_of_shells() {
  auto variable = [](const char* name) { return own_variable(name).value_or(""); };
  if (own_variable("SLURM_JOB_ID") && own_variable("SLURM_STEP_ID"))
    return {"slurm", variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID")};
  if (own_variable("FLUX_JOB_ID")) return {"flux", variable("FLUX_JOB_ID"), ""};
  return {};
}

std::vector<std::string> notes_of(const job::Options& options) {
  std::vector<std::string> out;
  if (const Json* shape = options.find("pretend"); shape != nullptr && shape->is_string())
    out.push_back(fmt::format("on a made-up machine: {}", shape->get<std::string>()));
  if (const Json* events = options.find("rehearse"); events != nullptr && events->is_string())
    out.push_back(fmt::format("a rehearsal: {}", events->get<std::string>()));
  return out;
}

}  // namespace

record::JobEntry own_entry(const job::Job& job, const job::Options& options) {
  record::JobEntry entry;
  entry.version = kVersion;
  entry.id = job.id;
  entry.name = job.name();
  entry.user = ::geteuid();
  entry.pid = ::getpid();
  entry.shells = job.shells();
  entry.spares = job.spares;
  entry.started = event::wall_clock();
  entry.notes = notes_of(options);
  return entry;
}

// Notes what has changed since shells came, went or were replaced, or tasks started again. `gone`: shells.
void set_changes(record::JobEntry& entry, const job::Job& job, const value::Idset& gone) {
  const value::Idset came = job.shells_that_came();
  entry.shells = came.size();
  entry.gone = (came & gone).size();
  entry.spares = (job.spare_shells() - gone).size();
  entry.restarts = job.restarts;
  entry.tasks = job.tasks();
}

// Adds members that take system calls; to be called once the tasks run. The second time it does nothing.
void complete_entry(record::JobEntry& entry, const job::Job& job) {
  if (entry.pid_start != 0) return;
  entry.place = record::own_place();
  entry.pid_start = record::start_of(entry.pid).value_or(0);
  entry.manager = manager_of_shells();
  entry.tasks = job.tasks();
  entry.command = job.spec.command;
  std::error_code failed;
  entry.cwd = job.spec.cwd.value_or(std::filesystem::current_path(failed).native());
}

// The first of these places that can be written to.
Result<record::EntryDirectory> choose_directory(const std::vector<std::string>& places, const OnOtherPlace& other) {
  std::vector<std::string> skipped;
  auto chosen = record::EntryDirectory::choose(places, &skipped);
  for (const std::string& each : skipped) other(each);
  return chosen;
}

// Writes the entry to `directory`, or if that is full or gone to the first place that takes it, which becomes
// `directory`. `first`: a place that comes before the others; "": there is none.
Result<void> put_entry(const record::JobEntry& entry, std::optional<record::EntryDirectory>& directory,
                       const std::string& first, const OnOtherPlace& other) {
  std::optional<Error> why;
  if (directory) {
    Result<void> written = directory->write(entry);
    if (written) return written;
    why = written.error();
  }
  std::vector<std::string> left = record::places(own_variable);
  std::stable_partition(left.begin(), left.end(), [&](const std::string& each) { return each == first; });
  if (directory) std::erase(left, directory->path());
  while (!left.empty()) {
    if (why) other(why->message);
    auto next = choose_directory(left, other);
    if (!next) return why ? *std::move(why) : next.error();
    Result<void> written = next->write(entry);
    if (written) {
      if (directory) static_cast<void>(directory->remove(entry.id));
      directory = *std::move(next);
      return {};
    }
    why = written.error();
    std::erase(left, next->path());
  }
  return *std::move(why);
}

// ---- control ----------------------------------------------------------------------------

namespace {

constexpr event::Seconds kBeforeOpen{0.01};    // from the start of the tasks on
constexpr event::Seconds kBeforeDetails{0.5};  // after that: a job that is over by then, and ends well, leaves no
                                               // details
constexpr event::Seconds kLookEach{30};        // whether somebody has removed the socket, or the entry
constexpr event::Seconds kMostToFollow{60};    // how long the job's starter may take to come to another leader
constexpr event::Seconds kMostLastTime{1};     // how long those who wait for the job's end may take to receive it
constexpr event::Seconds kMostStill{0.2};      // of that time, how long none of them may take anything
constexpr event::Seconds kLastLook{0.005};
constexpr std::size_t kMostDetails = std::size_t{768} << 10;  // bytes of an answer: below a frame's limit
constexpr std::uint64_t kPruneOne = 32;                       // one of so many jobs removes old entries
constexpr std::size_t kFewEntries = 64;                       // which nobody minds

class Control final : public plugin::Plugin {
 public:
  explicit Control(plugin::Host& host)
      : Plugin("control"),
        host_(host),
        questions_(host),
        answers_(host, questions_),
        execs_(host, [this] { return server_.get(); }),
        input_(host, [this] { return server_.get(); }),
        changes_(host),
        details_(host) {
    on("shell.init", [this] { return read(); });
  }
  ~Control() override {
    if (auto* output = viewers_ ? host_.task_output() : nullptr) output->follow(nullptr);
    close();
  }

 private:
  using ClientId = control::ControlServer::ClientId;

  Result<void> read() {
    bool is_on = !host_.standalone();
    if (host_.options().at(name())) is_on = TRY(host_.options().flag(name()));
    outlives_launcher_ = TRY(job::outlives_launcher(host_.options()));
    auto* launched = host_.launcher_tie();
    if (!is_on && (outlives_launcher_ || (launched != nullptr && launched->starts_detached())))
      return invalid(fmt::format("{}: such a job has to be in the list of jobs: leave out control=off",
                                 outlives_launcher_ ? "on-launcher-lost=go-on" : "--detach"));
    if (!is_on) return {};
    if (outlives_launcher_ && launched == nullptr && host_.job().leads())
      return invalid(
          "on-launcher-lost=go-on: a manager has started the shells, and ends them as it likes: leave it out");
    if (launched != nullptr && outlives_launcher_) launched->outlive_launcher();
    hands_over_ = TRY(job::OnLeaderLost::read(host_.options())).takes_over;
    questions_.serve();
    CHECK_OK(execs_.serve());
    CHECK_OK(serve_terminals());
    on("shell.finish", [this] { return questions_.stop(); });
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { shell_gone(lost.shell, false); });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& left) { shell_gone(left.shell, true); });
    if (host_.job().leads()) return lead();
    on("job.leader-wanted", [this] { return offer_to_lead(); });
    on("job.leader", [this] {
      execs_.leader_lost();
      return host_.job().leads() ? take_over() : Result<void>();
    });
    on("launcher.report", [this](plugin::Call& call) -> Result<void> {
      if (viewers_)
        viewers_->report(TRY(TRY(JsonAt::root(call.in).at("report")).string()),
                         TRY(TRY(JsonAt::root(call.in).at("text")).string()));
      return {};
    });
    on("job.input", [this](plugin::Call& call) {
      const bool goes_on = call.in.contains("at");
      input_.goes_on(goes_on ? std::optional(call.in.value("at", std::uint64_t{0})) : std::nullopt);
    });
    return {};
  }

  // Half of the shells are left: this one leads if the launcher comes, which finds it by its entry. Another shell
  // of this host that still has one goes on, or ends first.
  Result<void> offer_to_lead() {
    entry_ = own_entry(host_.job(), host_.options());
    entry_.takes_over = true;
    begun_ = event::clock_now();
    to_offer_ = TRY(event::Timer::create(host_.loop(), [this] {
      if (viewers_ || server_ || has_other_entry()) return;
      complete_entry(entry_, host_.job());
      Result<void> opened = open_server();
      if (opened) opened = write_entry();
      if (!opened)
        log(host_, *this, Level::debug, "{}: the launcher does not find this shell", opened.error().message);
    }));
    to_offer_->unref();
    to_offer_->start(event::Seconds::zero(), kLookEach);
    return {};
  }

  [[nodiscard]] bool has_other_entry() const {
    auto list = record::JobList::read(record::places(own_variable), record::own_witness(), event::wall_clock());
    auto job = list.find(host_.job().id.f58_plain());
    return job && !(**job).entry.ended() && (**job).state == record::JobState::running;
  }

  // Requests of the launcher wait until this shell leads; nobody else has any that it could answer.
  void hold(ClientId client, const control::ControlRequest& request) {
    const bool follows = request.action == "attach" && request.arguments.value("follows", false);
    const bool is_launcher =
        follows || std::any_of(held_.begin(), held_.end(), [&](const auto& each) { return each.first == client; });
    if (!is_launcher)
      return server_->answer(client, request.id, Error{EAGAIN, "the job has no leader at the moment"});
    auto without = value::Idset::parse(request.arguments.value("without", ""));
    if (!without || without->contains(host_.job().shell_rank))
      return server_->answer(client, request.id, Error{EPERM, "the job has gone on without this shell"});
    held_.emplace_back(client, request);
    if (follows) server_->answer_part(client, request.id, {{"without", host_.launcher_agrees().str()}});
  }

  // The tasks may run already, and who watches them comes as soon as the job can be found.
  Result<void> take_over() {
    CHECK_OK(lead());
    execs_.lead();
    if (TRY(job::OnLeaderLost::read(host_.options())).is_followed) CHECK_OK(await_follower());
    const auto& events = host_.events().events();
    has_run_ = std::any_of(events.begin(), events.end(),
                           [](const Json& event) { return member_of(event, "name") == "shell.start"; });
    if (has_run_) timer_->start(event::Seconds::zero());
    return {};
  }

  // The job's starter is connected to the lost shell.
  Result<void> await_follower() {
    input_.await_launcher();
    viewers_->await_follower([this] {
      if (auto* output = host_.task_output()) output->follower_has_room();
    });
    to_follow_ =
        TRY(event::Timer::create(host_.loop(), [this] { without_follower("has not come to this shell"); }));
    to_follow_->unref();
    to_follow_->start_grace(kMostToFollow);
    return {};
  }

  void without_follower(const std::string& what) {
    to_follow_.reset();
    input_.give_up_launcher();
    viewers_->give_up_follower();
    if (holds_) return;
    if (outlives_launcher_)
      return log(host_, *this, Level::notice, "who has started the job {}: it goes on without", what);
    host_.raise({"exec", 0, fmt::format("who has started the job {}: without its launcher the job ends", what),
                 std::nullopt});
  }

  Result<void> lead() {
    on("shell.tasks-complete", [this] { execs_.end_all(); });
    viewers_.emplace(TRY(Scrollback::size_of(host_.options())),
                     viewer_link([this] { return server_.get(); }, [this] { return answers_.code_of_tasks(); }));
    details_.keep_messages([this](const std::string& line) { viewers_->message(line); });
    if (auto* output = host_.task_output()) output->follow(&viewers_.value());
    on("job.listed", [this](plugin::Call& call) { return listed(call); });
    on<plugin::TasksExited>([this](const plugin::TasksExited& exited) { return tasks_exited(exited); });
    for (const char* topic : {"job.tasks-moved", "job.tasks-restart", "shell.joined"})
      on(topic, [this](plugin::Call& call) {
        changes_.restarts.started(call.in);
        write_changes();
      });
    on("job.resized", [this] { changes_.restarts.resized(host_.job().tasks()); });
    // Many shells may go at once, so the entry is written a moment later.
    gone_ = TRY(event::Timer::create(host_.loop(), [this] { write_changes(); }));
    gone_->unref();
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { is_open_ ? look() : open(); }));
    timer_->unref();
    started_ = host_.events().follow([this](const Json& event) {
      if (member_of(event, "name") != "shell.start") return;
      has_run_ = true;
      timer_->start(starts_detached() ? event::Seconds::zero() : kBeforeOpen);
    });
    ended_ = host_.on_ended([this](const Json& summary) { job_ended(summary); });
    entry_ = own_entry(host_.job(), host_.options());
    entry_.takes_over = hands_over_;
    begun_ = event::clock_now();
    return {};
  }

  [[nodiscard]] bool starts_detached() const {
    return host_.launcher_tie() != nullptr && host_.launcher_tie()->starts_detached();
  }

  // What tasks write to their terminals is kept for those who join these terminals.
  Result<void> serve_terminals() {
    PtyOptions options = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
    if (options.ranks.empty()) return {};
    answers_.set_terminals(std::move(options.ranks));
    on("task.fork", [this] {
      if (task::Pty* pty = host_.current_task()->pty()) pty->viewed().keep();
    });
    on("task.exit", [this] { execs_.task_ended(); });
    return {};
  }

  // ---- while it runs -------------------------------------------------------------

  void open() {
    if (host_.ending()) return;
    Result<void> opened = try_open();
    if (opened && host_.launcher_tie() != nullptr) host_.launcher_tie()->can_be_found();
    if (opened && starts_detached()) opened = host_.launcher_tie()->detach();
    if (opened) return;
    if (!starts_detached()) return without(opened.error());
    host_.die(1, name(), fmt::format("{}: nobody would find the job", opened.error().message));
  }

  Result<void> try_open() {
    complete_entry(entry_, host_.job());
    if (!server_) CHECK_OK(open_server());
    CHECK_OK(write_entry());
    is_open_ = true;
    timer_->start(kBeforeDetails, kLookEach);
    for (const auto& [client, request] : std::exchange(held_, {})) serve(client, request);
    return {};
  }

  Result<void> open_server() {
    control::ControlServer::Callbacks callbacks;
    callbacks.on_request = [this](ClientId client, const control::ControlRequest& request) {
      serve(client, request);
    };
    callbacks.on_gone = [this](ClientId client) {
      std::erase_if(held_, [&](const auto& each) { return each.first == client; });
      if (!is_open_) return;
      execs_.gone(client);
      input_.gone(client);
      const bool follows = viewers_->is_follower(client);
      viewers_->gone(client);
      if (follows && !host_.ending() && !has_ended_) without_follower("has gone");
    };
    callbacks.on_data = [this](ClientId client, const control::StreamData& data) {
      execs_.data(client, data);
      input_.data(client, data);
    };
    callbacks.on_end = [this](ClientId client, const control::StreamEnd& end) {
      execs_.end(client, end);
      input_.end(client, end);
    };
    callbacks.on_room = [this](ClientId client, std::uint64_t id) {
      execs_.room(client, id);
      viewers_->has_room(client, id);
    };
    callbacks.on_directory = [this](const std::string& path, bool there) { guard(there ? path : ""); };
    server_ = TRY(control::ControlServer::create(host_.loop(), own_variable("TMPDIR").value_or("/tmp"), kVersion,
                                                 std::move(callbacks)));
    return {};
  }

  // If this fails a bundle lacks the details, which is worth only a debug message.
  void write_details(std::string output) {
    Json details = details_.make(record::EntryDirectory::kMaxDetails, Details::kTasksKept, std::move(output));
    Result<void> written = directory_->write_details(entry_.id, dump_json(details) + '\n');
    if (!written)
      log(host_, *this, Level::debug, "{}: the details of the job are not kept", written.error().message);
  }

  [[nodiscard]] std::string last_output() const {
    return viewers_->text(Details::kMostTail, host_.job().tasks() > 1);
  }

  // Whether another shell leads by now, because this one stood still or was cut off.
  [[nodiscard]] bool is_another_leaders() const {
    if (!directory_) return false;
    auto now = directory_->read(entry_.id);
    return now && (now->pid != entry_.pid || now->place != entry_.place);
  }

  Result<void> put_entry() {
    if (hands_over_ && is_another_leaders()) return {};
    std::string first = host_.launcher_tie() != nullptr ? host_.launcher_tie()->directory() : "";
    return plugins::put_entry(entry_, directory_, first, [this](const std::string& why) { other_place(why); });
  }

  void other_place(const std::string& why) { log(host_, *this, Level::debug, "{}: another place is taken", why); }

  Result<void> write_entry() {
    entry_.address = server_ ? server_->address() : "";
    CHECK_OK(put_entry());
    if (!entry_.ended()) host_.children().guard_entry(directory_->path_of(entry_.id), true);
    return {};
  }

  void write_changes() {
    set_changes(entry_, host_.job(), questions_.gone());
    if (entry_.ended() || !server_) return;
    if (Result<void> written = write_entry(); !written) without(written.error());
  }

  // A job that ends at once is not in the list yet, but will be if some place takes it.
  Result<void> listed(plugin::Call& call) {
    if (gave_up_) return {};
    if (!directory_)
      directory_ =
          TRY(choose_directory(record::places(own_variable), [this](const auto& why) { other_place(why); }));
    call.out["id"] = entry_.id.f58_plain();
    return {};
  }

  // The job goes on without an entry.
  void without(const Error& why) {
    log(host_, *this, Level::warn, "{}: `nacre jobs` does not list this job, or it cannot be reached", why.message);
    timer_->stop();
    close();
    gave_up_ = true;
  }

  void look() {
    if (!std::exchange(has_details_, true)) return write_details("");
    auto moved = server_->restore();
    if (!moved) return without(moved.error());
    if (!*moved && ::access(directory_->path_of(entry_.id).c_str(), F_OK) == 0) return;
    auto again = record::EntryDirectory::make(directory_->path());
    if (again) directory_ = *std::move(again);
    if (Result<void> written = write_entry(); !written) without(written.error());
  }

  // The directory that is removed if this process is killed; "": there is none any more.
  void guard(const std::string& directory) {
    if (!guarded_.empty()) host_.children().guard_directory(guarded_, false);
    guarded_ = directory;
    if (!guarded_.empty()) host_.children().guard_directory(guarded_, true);
  }

  void serve(ClientId client, const control::ControlRequest& request) {
    if (!is_open_) return hold(client, request);
    if (request.action == "attach") return attach(client, request);
    if (request.action == "input") return input_.serve(client, request);
    if (execs_.take(client, request)) return;
    if (request.action == "details")
      return server_->answer(client, request.id, details_.make(kMostDetails, Details::kTasksAsked, last_output()));
    Answers::Reply reply;
    reply.part = [this, client, id = request.id](Json part) {
      if (server_) server_->answer_part(client, id, std::move(part));
    };
    reply.answer = [this, client, id = request.id](const Result<Json>& value) {
      if (server_) server_->answer(client, id, value);
    };
    if (changes_.take(request, reply, answers_)) return;
    answers_.serve(request, entry_, std::move(reply));
  }

  void attach(ClientId client, const control::ControlRequest& request) {
    if (request.arguments.contains("pty")) return execs_.join(client, request);
    if (auto* output = host_.task_output()) {
      output->put_event("attach", {{"client", client}});
      if (request.arguments.value("follows", false)) to_follow_.reset();
      return viewers_->attach(client, request, host_.job().tasks(), files_of_output());
    }
    server_->answer(client, request.id,
                    Error{ENOTSUP, "the job's output goes through no plugin that others can read from"});
  }

  // By stream, the file of each stream that comes out only there. The output was opened before.
  Json files_of_output() {
    Json out = Json::object();
    auto options = OutputOptions::read(host_.options());
    for (std::size_t i = 0; options && i < io::kStreams.size(); ++i) {
      const StreamOptions& stream = options->streams.at(i);
      if (stream.types != std::vector{OutputType::file}) continue;
      auto path = output_path(host_, stream.path, nullptr);
      if (path) out[io::name_of(io::kStreams.at(i))] = std::filesystem::absolute(*path).string();
    }
    return out;
  }

  void tasks_exited(const plugin::TasksExited& exited) {
    changes_.restarts.ended(exited.ranks);
    viewers_->look();
  }

  void shell_gone(std::uint32_t shell, bool has_left) {
    questions_.lost(shell);
    execs_.shell_gone(shell, has_left);
    if (gone_) gone_->start(event::Seconds::zero());
  }

  // ---- the end -------------------------------------------------------------------

  void job_ended(const Json& summary) {
    timer_->stop();
    if (viewers_->awaits_follower() && !gave_up_ && (is_open_ || try_open())) return wait_for_follower(summary);
    end_job(summary);
  }

  // The follower gets the code here, as nobody else would tell it.
  void wait_for_follower(const Json& summary) {
    auto timer = event::Timer::create(host_.loop(), [this, summary] {
      if (viewers_->awaits_follower()) return;
      to_end_->stop();
      end_job(summary);
      static_cast<void>(host_.release(name()));
    });
    if (!timer) return end_job(summary);
    host_.hold(name());
    to_end_ = *std::move(timer);
    to_end_->start(kLastLook, kLastLook);
  }

  void end_job(const Json& summary) {
    changes_.restarts.job_ended();
    answers_.job_ended(summary);
    set_changes(entry_, host_.job(), questions_.gone());
    Result<void> written = gave_up_ && !directory_ ? Result<void>() : write_end(summary);
    if (!written)
      log(host_, *this, Level::warn, "{}: `nacre jobs` does not tell how this job has ended",
          written.error().message);
    host_.children().guard_entry(directory_ ? directory_->path_of(entry_.id) : "", false);
    if (written && has_run_ && starts_detached()) static_cast<void>(host_.launcher_tie()->detach());
    if (!server_) return;
    control::ControlEvent event;
    event.timestamp = event::wall_clock();
    event.name = "end";
    event.context = {{"code", summary.at("exit").at("code")}, {"by", summary.at("exit").value("by", Json())}};
    server_->notify(event);
    has_ended_ = true;
    viewers_->ended(summary.at("exit").value("code", 1), report_text(summary));
    if (!is_taken()) wait_for_clients();
  }

  // The text for those who cannot read it at this shell's standard error.
  [[nodiscard]] std::string report_text(const Json& summary) {
    auto shown = host_.options().at("exit-report");
    const bool is_full = !shown || shown->json() == "full" || shown->json() == true || shown->json() == 1;
    if (!is_full || summary.at("exit").value("code", 1) == 0) return "";
    const Json report = answers_.report(summary);
    return report.is_null() ? "" : exits::report_text(report, directory_ ? entry_.id.f58_plain() : "");
  }

  Result<void> write_end(const Json& summary) {
    complete_entry(entry_, host_.job());
    record::EntryEnd end;
    end.time = event::wall_clock();
    end.ran = (event::clock_now() - begun_).count();
    end.code = summary.at("exit").value("code", 1);
    end.cause = summary.value("cause", "");
    end.exits = record::exits_of(summary.value("tasks", Json::object()));
    end.rule = summary.value("rule", Json());
    end.report = answers_.report(summary);
    end.usage = answers_.usage(usage::kMostKept, usage::kFewCells);
    if (end.usage.is_null()) end.usage = summary.value("used", Json());
    end.timeline = answers_.timeline();
    if (host_.launcher_tie() != nullptr) end.lost_output = host_.launcher_tie()->lost_output();
    entry_.end = std::move(end);
    CHECK_OK(put_entry());
    auto* examiner = examiner_of(host_);
    bool has_news = entry_.end->code != 0 || (examiner != nullptr && !examiner->last_look().is_null());
    if (has_news) write_details(entry_.end->code != 0 ? last_output() : "");
    prune();
    return {};
  }

  // Only reads names, as the job's starter waits for this process. In a container each job may have the same
  // process id.
  void prune() {
    const std::uint64_t number = static_cast<std::uint64_t>(entry_.pid) + entry_.id.value();
    if (number % kPruneOne != 0 || directory_->names().size() <= kFewEntries) return;
    if (!host_.children().leave_pruning(directory_->path())) record::prune(*directory_, event::wall_clock());
  }

  void wait_for_clients() {
    auto timer = event::Timer::create(host_.loop(), [this] {
      event::Seconds now = event::clock_now();
      if (std::exchange(last_sent_, server_->sent_bytes()) != server_->sent_bytes())
        still_until_ = now + kMostStill;
      bool is_over = now >= last_ || now >= still_until_;
      if (!holds_ || !(is_over || is_taken())) return;
      holds_ = false;
      timer_->stop();
      static_cast<void>(host_.release(name()));
    });
    if (!timer) return;
    timer_ = *std::move(timer);
    last_ = event::clock_now() + kMostLastTime;
    still_until_ = event::clock_now() + kMostStill;
    holds_ = true;
    host_.hold(name());
    timer_->start(kLastLook, kLastLook);
  }

  [[nodiscard]] bool is_taken() const { return server_->flushed() && !viewers_->any(); }

  void close() {
    server_.reset();
    guard("");
  }

  plugin::Host& host_;
  Questions questions_;
  Answers answers_;
  ExecService execs_;
  InputService input_;
  Changes changes_;
  Details details_;
  record::JobEntry entry_;
  event::Seconds begun_{};  // the same time as `started`
  std::optional<record::EntryDirectory> directory_;
  std::optional<Viewers> viewers_;  // on the leader
  std::unique_ptr<control::ControlServer> server_;
  std::string guarded_;  // a directory
  std::optional<event::Timer> timer_;
  std::optional<event::Timer> to_offer_;  // looks whether this shell can be found by a launcher that lets it lead
  std::vector<std::pair<ClientId, control::ControlRequest>>
      held_;                               // requests of that launcher, until this shell leads
  std::optional<event::Timer> to_follow_;  // who has started the job is waited for
  std::optional<event::Timer> to_end_;     // the job has ended, and it is still waited for
  std::optional<event::Timer> gone_;       // shells have gone: the entry is about to be written
  std::unique_ptr<plugin::EventRecord::Follower> started_;
  plugin::Registration ended_;
  event::Seconds last_{};         // until when clients that wait for the job's end may take it
  event::Seconds still_until_{};  // until when one of them has to take something
  std::uint64_t last_sent_ = 0;   // bytes, at the last look
  bool holds_ = false, gave_up_ = false, outlives_launcher_ = false, has_details_ = false;
  bool is_open_ = false;     // it leads, and requests are served
  bool hands_over_ = false;  // another shell may come to lead
  bool has_run_ = false;     // all tasks of the job have started
  bool has_ended_ = false;   // and its code is known
};

}  // namespace

PluginPtr make_control(plugin::Host& host) { return std::make_unique<Control>(host); }

}  // namespace nacre::plugins
