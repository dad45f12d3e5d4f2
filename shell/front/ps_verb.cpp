// SPDX-License-Identifier: Apache-2.0
//
// nacre ps; see nacre-ps(1).
#include <fmt/format.h>

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/job_verb.hpp"
#include "front/place_rows.hpp"
#include "front/ps_rows.hpp"
#include "front/table.hpp"
#include "front/verbs.hpp"

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
    record::Listed job = TRY(this->job());
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

}  // namespace nacre::front
