// SPDX-License-Identifier: Apache-2.0
//
// nacre jobs; see nacre-jobs(1).

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "event/clock.hpp"
#include "front/job_verb.hpp"
#include "front/table.hpp"
#include "front/verbs.hpp"

namespace nacre::front {
namespace {

constexpr std::size_t kNameWidth = 20;
constexpr std::size_t kHostWidth = 24;
constexpr std::size_t kInfoWidth = 48;

std::string info_of(const record::Listed& job) {
  const record::JobEntry& entry = job.entry;
  if (job.state == record::JobState::unled) return "its leader is lost, and no other one leads so far";
  if (!entry.ended()) {
    if (entry.manager.kind == "none")
      return printable(fmt::format("{}", fmt::join(entry.command, " ")), kInfoWidth);
    return printable(fmt::format("{}:{}{}{}", entry.manager.kind, entry.manager.job,
                                 entry.manager.step.empty() ? "" : ".", entry.manager.step),
                     kInfoWidth);
  }
  const record::EntryEnd& end = *entry.end;
  if (end.vanished) return "its leader has gone";
  if (end.cause.empty()) return fmt::format("exit {}", end.code);
  return printable(fmt::format("exit {}: {}", end.code, end.cause), kInfoWidth);
}

// As for -N of nacre run: "4+1".
std::string nodes_of(const record::JobEntry& entry) {
  const std::uint64_t there = entry.shells - std::min(entry.gone, entry.shells);
  if (entry.spares == 0 || entry.spares >= there) return std::to_string(there);
  return fmt::format("{}+{}", there - entry.spares, entry.spares);
}

Json json_of(const record::Listed& job, const record::Witness& witness, double now) {
  const record::JobEntry& entry = job.entry;
  Json out = Json::parse(entry.text());
  if (job.state == record::JobState::unled) out.erase("end");
  if (out.contains("end")) out["end"].erase("report");
  out["status"] = job.status();
  out["time"] = record::time_of(entry, witness, now);
  return out;
}

class Jobs final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, JobVerb::Jobs::none);
    verb_->add_flag("-a,--all", all_, "Also those that have ended");
  }

 private:
  Result<int> run_verb() override {
    const double now = event::wall_clock();
    const record::Witness witness = record::own_witness();
    Table table({{"ID"},
                 {"NAME"},
                 {"ST"},
                 {"NTASKS", Table::Side::right},
                 {"NNODES", Table::Side::right},
                 {"TIME", Table::Side::right},
                 {"HOST"},
                 {"INFO"}});
    for (const record::Listed& job : list().jobs) {
      const record::JobEntry& entry = job.entry;
      if (job.state == record::JobState::ended && !all_) continue;
      std::string id = entry.id.f58_plain();
      if (json_) {
        print_out("{}\n", dump_json(json_of(job, witness, now)));
      } else if (quiet_) {
        print_out("{}\n", id);
      } else {
        double time = record::time_of(entry, witness, now);
        table.add({id, printable(entry.name, kNameWidth), std::string(job.status()), std::to_string(entry.tasks),
                   nodes_of(entry), time_text(time), printable(entry.place.host, kHostWidth), info_of(job)});
      }
    }
    if (!json_ && !quiet_) print_out(table.text(true));
    return 0;
  }

  bool all_ = false;
};

}  // namespace

VerbPtr make_jobs() { return std::make_unique<Jobs>(); }

}  // namespace nacre::front
