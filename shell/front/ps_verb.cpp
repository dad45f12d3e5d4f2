// SPDX-License-Identifier: Apache-2.0
//
// nacre ps; see nacre-ps(1).

#include "front/ps_verb.hpp"

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/job_verb.hpp"
#include "front/table.hpp"
#include "front/verbs.hpp"
#include "wire/json.hpp"

namespace nacre::front {
namespace {

class Ps final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb_->add_flag("--no-fold", no_fold_, "Print a row for each process, however many there are");
    verb_->add_flag("--plan", plan_, "Print where each task is, and why: cpus, memory, gpus, network cards");
    add_reach();
  }

 private:
  struct Rows {
    std::vector<PsTask> tasks;
    std::vector<PsSpare> spares;
  };

  Result<int> run_verb() override {
    record::Listed job = TRY(led_job());
    if (job.entry.ended())
      return invalid(fmt::format("job {} has ended; `nacre report {}` prints how", job.entry.id.f58_plain(),
                                 job.entry.id.f58_plain()));
    control::Client client = TRY(reach_job(job));
    if (plan_) return print_plan(client);
    Rows rows;
    Result<void> taken;
    auto take = [&](const Json& part) {
      if (taken) taken = add(part, rows);
    };
    Json last = TRY(client.ask("ps", Json::object(), take));
    CHECK_OK(in("what the leader answers", std::move(taken)));
    if (!json_) print_table(rows);
    print_notes(last);
    return report_late(last) ? 0 : 1;
  }

  Result<int> print_plan(control::Client& client) {
    std::vector<PlaceOfTask> tasks;
    Result<void> taken;
    Json last = TRY(client.ask("plan", Json::object(), [&](const Json& part) {
      if (taken) taken = add(part, tasks);
    }));
    CHECK_OK(in("what the leader answers", std::move(taken)));
    if (!json_) {
      Table table({{"RANK"}, {"HOST"}, {"WHAT"}, {"WHERE"}, {"WHY"}});
      for (auto& row : place_rows(tasks, !no_fold_)) table.add(std::move(row));
      print_out(table.text(!quiet_));
    }
    return report_late(last) ? 0 : 1;
  }

  Result<void> add(const Json& part, std::vector<PlaceOfTask>& tasks) {
    return add_rows(TRY(JsonAt::root(part).at("tasks")), tasks);
  }

  // Tasks come before what they have spawned, and spares last.
  Result<void> add(const Json& part, Rows& rows) {
    JsonAt at = JsonAt::root(part);
    CHECK_OK(add_rows(TRY(at.at("tasks")), rows.tasks));
    if (auto spawned = TRY(at.find("spawned"))) CHECK_OK(add_rows(*spawned, rows.tasks));
    if (auto spares = TRY(at.find("spares"))) CHECK_OK(add_rows(*spares, rows.spares));
    return {};
  }

  template <typename Row>
  Result<void> add_rows(const JsonAt& from, std::vector<Row>& to) {
    for (const JsonAt& each : TRY(from.elements())) {
      to.push_back(TRY(Row::parse(each.json())));
      if (json_) print_out("{}\n", dump_json(each.json()));
    }
    return {};
  }

  void print_table(const Rows& rows) {
    using Side = Table::Side;
    Table table({{"RANK"},
                 {"HOST"},
                 {"PID", Side::right},
                 {"ST"},
                 {"TRY", Side::right},
                 {"TIME", Side::right},
                 {"CPU%", Side::right},
                 {"RSS", Side::right},
                 {"CMD"}});
    for (auto& row : ps_rows(rows.tasks, !no_fold_ && rows.tasks.size() > kPsFoldAbove)) table.add(std::move(row));
    for (const PsSpare& each : rows.spares) table.add(ps_row(each));
    print_out(table.text(!quiet_));
  }

  static void print_notes(const Json& answer) {
    constexpr std::size_t kMostText = 200;
    const Json& notes = member_of(answer, "notes");
    if (!notes.is_array()) return;
    for (const Json& each : notes)
      print_err("nacre ps: {}\n", each.is_string() ? printable(each.get<std::string>(), kMostText) : "?");
  }

  // Returns false, after a warning, if some of the shells have not answered.
  static bool report_late(const Json& answer) {
    auto late = answer.find("late");
    if (late == answer.end() || !late->is_array() || late->empty()) return true;
    std::vector<std::string> hosts;
    for (const Json& each : *late) hosts.push_back(each.is_string() ? printable(each.get<std::string>(), 64) : "?");
    print_err("nacre ps: no answer in time from the shells on {}: their tasks are not shown\n",
              fmt::join(hosts, ", "));
    return false;
  }

  bool no_fold_ = false, plan_ = false;
};

}  // namespace

VerbPtr make_ps() { return std::make_unique<Ps>(); }

// ---- ps rows ----------------------------------------------------------------------------

namespace {

constexpr std::size_t kCommandWidth = 32;
constexpr std::size_t kPsHostWidth = 24;
constexpr std::size_t kRanksWidth = 24;

struct Fold {
  value::Idset ranks;
  double time = 0, cpu = 0, rss = 0;
};

std::string percent(double cpu) { return fmt::format("{:.1f}", cpu * 100); }

std::string ranks_text(std::uint64_t spawn, const std::string& ranks) {
  return printable(spawn == 0 ? ranks : fmt::format("{}.{}", spawn, ranks), kRanksWidth);
}

// A spawned process is not started again.
std::string try_text(std::uint64_t spawn, std::uint32_t attempt) {
  return spawn == 0 ? std::to_string(attempt) : "-";
}

}  // namespace

void fields(auto& io, wire::Of<PsTask> auto& m) {
  io.may_have("spawn", m.spawn, wire::Between{1});
  io.has("rank", m.rank);
  io.has("host", m.host);
  io.may_lack("shell", m.shell);
  io.has("pid", m.pid, wire::Between{0, INT32_MAX});
  io.has("state", m.state);
  if (m.spawn == 0) io.has("try", m.attempt);
  io.has("time", m.time);
  io.has("cpu", m.cpu);
  io.has("rss", m.rss);
  io.has("command", m.command);
  io.may_have("gpu_memory", m.gpu_memory);
  io.may_have("gpu_device_use", m.gpu_device_use);
}

Json PsTask::json() const { return wire::to_json(*this); }

Result<PsTask> PsTask::parse(const Json& json) { return wire::from_json<PsTask>(json); }

void fields(auto& io, wire::Of<PsSpare> auto& m) {
  io.has("host", m.host);
  io.has("shell", m.shell);
}

Result<PsSpare> PsSpare::parse(const Json& json) { return wire::from_json<PsSpare>(json); }

std::vector<std::string> ps_row(const PsSpare& spare) {
  return {"-", printable(spare.host, kPsHostWidth), "-", "-", "-", "-", "-", "-", "(spare)"};
}

std::vector<std::vector<std::string>> ps_rows(const std::vector<PsTask>& tasks, bool folded) {
  std::vector<std::vector<std::string>> out;
  if (!folded) {
    for (const PsTask& each : tasks)
      out.push_back({ranks_text(each.spawn, std::to_string(each.rank)), printable(each.host, kPsHostWidth),
                     std::to_string(each.pid), printable(each.state, 2), try_text(each.spawn, each.attempt),
                     time_text(each.time), percent(each.cpu), size_text(each.rss),
                     printable(each.command, kCommandWidth)});
    return out;
  }
  using Key = std::tuple<std::uint64_t, std::string, std::string, std::uint32_t, std::string>;
  std::map<Key, Fold> folds;
  for (const PsTask& each : tasks) {
    Fold& fold = folds[{each.spawn, each.host, each.state, each.attempt, each.command}];
    fold.ranks.insert(each.rank);
    fold.time = std::max(fold.time, each.time);
    fold.cpu += each.cpu;
    fold.rss += each.rss;
  }
  using Place = std::pair<std::uint64_t, value::Idset::Id>;  // the spawn, and the first rank
  std::vector<std::pair<Place, std::vector<std::string>>> rows;
  for (const auto& [key, fold] : folds) {
    const auto& [spawn, host, state, attempt, command] = key;
    double count = static_cast<double>(fold.ranks.size());
    rows.emplace_back(
        Place(spawn, *fold.ranks.first()),
        std::vector<std::string>{ranks_text(spawn, fold.ranks.str()), printable(host, kPsHostWidth),
                                 fmt::format("({})", fold.ranks.size()), printable(state, 2),
                                 try_text(spawn, attempt), time_text(fold.time), percent(fold.cpu / count),
                                 size_text(fold.rss), printable(command, kCommandWidth)});
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [first, cells] : rows) out.push_back(std::move(cells));
  return out;
}

// ---- place rows -------------------------------------------------------------------------

namespace {

constexpr std::size_t kPlaceRanks = 24;  // bytes of ranks, and of hosts
constexpr std::size_t kPlaceWhere = 48;
constexpr std::size_t kPlaceWhy = 400;

struct AlikePlaced {
  const PlaceOfTask* first = nullptr;
  value::Idset ranks;
  std::vector<std::string> hosts;
};

// Cores that are not as planned come behind the reason.
std::string why_of_cpus(const PlaceOfTask& task) {
  std::string out = task.parts[0].why;
  if (!task.unset.empty())
    out += fmt::format("; not set: {}", task.unset);
  else if (!task.cpus_now.empty() && task.cpus_now != task.parts[0].where)
    out += fmt::format("; its process may use {} now", task.cpus_now);
  return out;
}

std::string hosts_text(const std::vector<std::string>& hosts) {
  value::Hostlist list;
  for (const std::string& each : hosts) {
    if (!each.empty()) list.append(each);  // R need not name the host
  }
  return list.str();
}

void add_rows_of(const AlikePlaced& placed, std::vector<std::vector<std::string>>& out) {
  std::string ranks = printable(placed.ranks.str(), kPlaceRanks);
  std::string hosts = printable(hosts_text(placed.hosts), kPlaceRanks);
  for (std::size_t kind = 0; kind < PlaceOfTask::kKinds.size(); ++kind) {
    const PlaceOfTask::Part& part = placed.first->parts.at(kind);
    if (part == PlaceOfTask::Part{}) continue;
    bool is_cpus = kind == 0;
    out.push_back({std::exchange(ranks, ""), std::exchange(hosts, ""), std::string(PlaceOfTask::kKinds.at(kind)),
                   printable(part.where, kPlaceWhere),
                   printable(is_cpus ? why_of_cpus(*placed.first) : part.why, kPlaceWhy)});
  }
}

}  // namespace

Result<PlaceOfTask> PlaceOfTask::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  PlaceOfTask out;
  out.rank = static_cast<std::uint32_t>(TRY(TRY(at.at("rank")).integer(0, UINT32_MAX)));
  out.host = TRY(TRY(at.at("host")).string());
  JsonAt why = TRY(at.at("why"));
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    std::string where = TRY(TRY(at.at(kKinds.at(kind))).string());  // see group/codec.cpp
    std::string reason = TRY(TRY(why.at(kKinds.at(kind))).string());
    out.parts.at(kind) = {std::move(where), std::move(reason)};
  }
  out.cpus_now = TRY(TRY(at.at("cpus_now")).string());
  out.unset = TRY(TRY(at.at("unset")).string());
  return out;
}

std::vector<std::vector<std::string>> place_rows(const std::vector<PlaceOfTask>& tasks, bool folded) {
  using Key = std::tuple<std::array<PlaceOfTask::Part, PlaceOfTask::kKinds.size()>, std::string, std::string>;
  std::map<Key, std::size_t> known;
  std::vector<AlikePlaced> all;
  for (const PlaceOfTask& each : tasks) {
    auto [found, is_new] = known.try_emplace({each.parts, each.cpus_now, each.unset}, all.size());
    if (is_new || !folded) {
      found->second = all.size();
      all.push_back({&each, {}, {}});
    }
    AlikePlaced& of = all[found->second];
    of.ranks.insert(each.rank);
    if (std::find(of.hosts.begin(), of.hosts.end(), each.host) == of.hosts.end()) of.hosts.push_back(each.host);
  }
  std::vector<std::vector<std::string>> out;
  for (const AlikePlaced& each : all) add_rows_of(each, out);
  return out;
}

}  // namespace nacre::front
