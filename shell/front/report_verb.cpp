// SPDX-License-Identifier: Apache-2.0
//
// nacre report; see nacre-report(1).
#include <ctime>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/print.hpp"
#include "event/clock.hpp"
#include "exits/report_text.hpp"
#include "front/job_verb.hpp"
#include "front/table.hpp"
#include "front/verbs.hpp"
#include "record/other_policy.hpp"

namespace nacre::front {
namespace {

constexpr std::size_t kLine = 160;
constexpr std::size_t kRanks = 60;

std::string date_of(double time) {
  auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  std::array<char, 64> text{};
  ::localtime_r(&seconds, &parts);
  std::strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

std::string ranks_text(const Json& each) {
  auto ranks = each.find("ranks");
  return ranks == each.end() || !ranks->is_string() ? "" : printable(ranks->get<std::string>(), kRanks);
}

class Report final : public JobVerb {
 public:
  void add_to(CLI::App& nacre) override {
    add_verb(nacre, "report", "Print how a job has ended, or how far it is", Jobs::one);
    verb_
        ->add_option("--policy", policy_,
                     "Also print the exit code that the job would have by this policy, see nacre-exits(7)")
        ->option_text("max|main|all|main+all|first")
        ->check([](const std::string& name) {
          auto kind = exits::Policy::kind_of(name);
          return kind ? std::string() : kind.error().message;
        });
    add_reach();
  }

 private:
  Result<int> run_verb() override {
    record::Listed job = TRY(this->job());
    if (job.entry.ended()) {
      std::optional<int> code;
      if (!policy_.empty()) {
        auto kind = TRY(exits::Policy::kind_of(policy_));
        code = TRY(in(fmt::format("job {}: --policy={}", job.entry.id.f58_plain(), policy_),
                      record::code_by(kind, *job.entry.end)));
      }
      print(job.entry, *job.entry.end, code);
      return 0;
    }
    if (!policy_.empty())
      return invalid(fmt::format("job {} runs: --policy is for one that has ended", job.entry.id.f58_plain()));
    control::Client client = TRY(reach_job(job));
    Json exits = TRY(client.ask("exits"));
    Json report = TRY(client.ask("report"));
    print_running(job.entry, exits, report);
    return 0;
  }

  // `code`: by the policy that was asked for.
  void print(const record::JobEntry& entry, const record::EntryEnd& end, std::optional<int> code) const {
    if (json_) {
      Json out = Json::parse(entry.text());
      if (code) out["policy"] = {{"name", policy_}, {"code", *code}};
      print_out("{}\n", dump_json(out));
      return;
    }
    if (!quiet_) print_head(entry);
    std::string how = end.vanished ? "vanished" : fmt::format("ended with exit code {}", end.code);
    print_out("{} {}, {} after its start\n", date_of(end.time), how, time_text(end.time - entry.started));
    if (code) print_out("policy {}: exit code {}\n", policy_, *code);
    if (!end.cause.empty()) print_out("because: {}\n", printable(end.cause, kLine));
    print_exits(end.exits);
    if (end.code != 0 && end.report.is_object()) print_out(exits::report_text(end.report));
  }

  void print_running(const record::JobEntry& entry, const Json& exits, const Json& report) const {
    if (json_) {
      Json out = Json::parse(entry.text());
      out["running"] = exits.value("running", "");
      out["exits"] = exits.value("exits", Json::array());
      out["report"] = report.value("report", Json());
      print_out("{}\n", dump_json(out));
      return;
    }
    if (!quiet_) print_head(entry);
    print_out("runs since {}: ranks {}\n", time_text(event::wall_clock() - entry.started),
              printable(exits.value("running", ""), kRanks));
    print_exits(exits.value("exits", Json::array()));
  }

  static void print_head(const record::JobEntry& entry) {
    print_out("job {} ({}): {} task{}, {} shell{}, leader on {}\n", entry.id.f58_plain(),
              printable(entry.name, kLine), entry.tasks, entry.tasks == 1 ? "" : "s", entry.shells,
              entry.shells == 1 ? "" : "s", printable(entry.place.host, kLine));
    print_out("command: {}\n", printable(fmt::format("{}", fmt::join(entry.command, " ")), kLine));
    print_out("{} started\n", date_of(entry.started));
  }

  static void print_exits(const Json& exits) {
    if (exits.empty() || !exits.is_array()) return;
    Table table({{"RECORD"}, {"TASKS", Table::Side::right}, {"RANKS"}});
    for (const Json& each : exits) {
      if (!each.is_object()) continue;
      table.add({printable(each.value("record", ""), kRanks), std::to_string(each.value("count", std::uint64_t{0})),
                 ranks_text(each)});
    }
    print_out(table.text(true));
  }

  std::string policy_;
};

}  // namespace

VerbPtr make_report() { return std::make_unique<Report>(); }

}  // namespace nacre::front
