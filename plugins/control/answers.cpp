// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/answers.hpp"

#include <sys/types.h>
#include <unistd.h>

#include "doctor/findings.hpp"
#include "exits/job_end.hpp"
#include "plugins/doctor/stack_taker.hpp"
#include "plugins/timeline/timeline.hpp"
#include "timeline/summary.hpp"
#include "timeline/trace.hpp"
#include "usage/table.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kRowsInPart = 2048;    // of an answer that comes in parts: far below a frame's limit
constexpr std::size_t kEventsInPart = 1024;  // of an answer that comes in parts
constexpr std::size_t kMostInPart = std::size_t{256} << 10;    // bytes of rows in a part
constexpr std::size_t kMostUsage = std::size_t{512} << 10;     // bytes of the answer: below a frame's limit
constexpr std::size_t kMostHostBytes = std::size_t{64} << 10;  // bytes of the hosts' names

}  // namespace

void Answers::serve(const control::ControlRequest& request, const record::JobEntry& entry, Reply reply) {
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
  reply.answer(
      Error{ENOSYS, fmt::format("{:.64}: not known to the job's shells, which are of nacre {}", action, kVersion)});
}

value::Idset Answers::running() const {
  if (!summary_.is_null()) return {};
  auto last = static_cast<value::Idset::Id>(host_.job().tasks() - 1);
  return value::Idset::range(0, last) - host_.outcomes().ranks();
}

Json Answers::exits_by_record() const {
  if (!summary_.is_null()) return summary_.value("tasks", Json::object());
  Json out = Json::object();
  for (const auto& [record, ranks] : host_.outcomes().classes()) out[record.str()] = ranks.str();
  return out;
}

std::optional<int> Answers::code_of_tasks() const {
  if (!summary_.is_null()) return summary_.at("exit").value("code", 1);
  if (host_.ending() || !running().empty()) return std::nullopt;
  exits::JobEnd end;
  for (int signum = 1; signum <= SIGRTMAX; ++signum) {
    if (host_.sent_to_tasks(signum)) end.sent_to_tasks(signum);
  }
  return end.code(host_.outcomes(), host_.exit_policy());
}

std::optional<std::string> Answers::hosts() const {
  value::Hostlist hosts;
  for (const auto& node : host_.job().resources.nodes) {
    if (node.hostname.empty()) return std::nullopt;  // R need not name its hosts
    hosts.append(node.hostname);
  }
  std::string text = hosts.str();
  return text.size() <= kMostHostBytes ? std::optional(std::move(text)) : std::nullopt;
}

Json Answers::status(const record::JobEntry& entry) const {
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

Json Answers::exits() const {
  return {{"running", running().str()}, {"exits", record::exits_of(exits_by_record())}};
}

Json Answers::report(const Json& summary) const {
  plugin::Call call("job.report");
  call.in = summary;
  if (!host_.stack().call(call)) return {};
  return call.out.empty() ? Json() : std::move(call.out);
}

Json Answers::usage(std::size_t most, std::size_t cells) const {
  plugin::Call call("job.usage");
  call.in["cells"] = cells;
  if (!host_.stack().call(call) || !call.out.is_object() || call.out.empty()) return {};
  return usage::fitting_summary(std::move(call.out), most);
}

// The rows come first, in parts.
void Answers::usage(const Json& arguments, const Reply& reply) const {
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

Json Answers::timeline() const {
  TimelineSource* source = timeline_of(host_);
  return source == nullptr ? Json() : source->kept();
}

// With `trace`, the trace's events come first, in parts of a bounded size.
void Answers::timeline(const Json& arguments, const Reply& reply) {
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

Json Answers::report_so_far() const {
  Json summary = summary_;
  if (summary.is_null()) summary = {{"tasks", exits_by_record()}};
  Json report = this->report(summary);
  return {{"running", running().str()}, {"report", report.is_null() ? Json() : record::fitting_report(report)}};
}

Result<Json> Answers::send_signal(const Json& arguments) {
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

Result<Json> Answers::cancel() {
  if (!summary_.is_null() || host_.ending()) return Error{EALREADY, "the job is ending already"};
  host_.raise({"cancel", 0, "ended by nacre cancel", value::WaitStatus::killed(SIGTERM)});
  return Json::object();
}

std::string Answers::host_of(std::uint32_t shell) const {
  const auto& nodes = host_.job().resources.nodes;
  return shell < nodes.size() ? nodes[shell].hostname : "";
}

Json Answers::hosts_of(const value::Idset& shells) const {
  Json out = Json::array();
  for (std::uint32_t shell : shells.ids()) out.push_back(host_of(shell));
  return out;
}

// A row of `ps`. The shells give all of it but hosts and tries, which the leader adds.
Json Answers::row_of(const TaskProcess& process) const {
  const auto& job = host_.job();
  Result<std::uint32_t> shell =
      process.origin ? Result<std::uint32_t>(process.origin->shell) : job.taskmap.node_of(process.rank);
  // Set member by member, which is several times as fast as a list of members: `nacre top` asks for this often.
  Json row = Json::object();
  if (process.origin) row["spawn"] = process.origin->spawn;
  row["rank"] = process.rank;
  row["host"] = shell ? host_of(*shell) : "";
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

// Sends parts of a bounded size.
void Answers::processes(const Json& arguments, Reply reply) {
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
      spares.push_back({{"spare", true}, {"host", host_of(shell)}, {"shell", shell}});
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
void Answers::places(const Reply& reply) {
  auto done = [this, reply](const std::vector<TaskPlace>& all, const value::Idset& late, const Questions::Notes&) {
    Json rows = Json::array();
    std::size_t bytes = 0;
    for (const TaskPlace& each : all) {
      if (bytes > kMostInPart) reply.part({{"tasks", std::exchange(rows, Json::array())}});
      if (rows.empty()) bytes = 0;
      auto shell = host_.job().taskmap.node_of(each.rank);
      Json why{
          {"cpus", each.cpus.why}, {"memory", each.memory.why}, {"gpus", each.gpus.why}, {"nics", each.nics.why}};
      rows.push_back({{"rank", each.rank},
                      {"host", shell ? host_of(*shell) : ""},
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

// Groups come in parts of a bounded size, then the rest.
void Answers::examine(const Json& arguments, Reply reply) {
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

}  // namespace nacre::plugins
