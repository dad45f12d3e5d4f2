// SPDX-License-Identifier: Apache-2.0
//
// nacre report; see nacre-report(1).

#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "cli/command_line.hpp"
#include "event/clock.hpp"
#include "exits/report_text.hpp"
#include "front/bundle.hpp"
#include "front/job_verb.hpp"
#include "front/table.hpp"
#include "front/verbs.hpp"
#include "record/bad_hosts.hpp"
#include "record/entry.hpp"
#include "record/places.hpp"
#include "record/shareable.hpp"
#include "usage/table.hpp"
#include "version.hpp"

namespace nacre::front {

// ---- job report -------------------------------------------------------------------------
//
// What `nacre report` prints of a job, as text; see nacre-report(1).

// The exit code that another policy gives.
struct OtherCode {
  std::string policy;
  int code = 0;
};

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

std::string exits_text(const Json& exits) {
  if (exits.empty() || !exits.is_array()) return "";
  Table table({{"RECORD"}, {"TASKS", Table::Side::right}, {"RANKS"}});
  for (const Json& each : exits) {
    if (!each.is_object()) continue;
    table.add({printable(each.value("record", ""), kRanks), std::to_string(each.value("count", std::uint64_t{0})),
               ranks_text(each)});
  }
  return table.text(true);
}

}  // namespace

// The lines on the job itself.
std::string head_of(const record::JobEntry& entry) {
  std::string notes;
  for (const std::string& each : entry.notes) notes += printable(each, kLine) + '\n';
  return fmt::format("job {} ({}): {} task{}, {} shell{}, leader on {}\ncommand: {}\n{} started\n",
                     entry.id.f58_plain(), printable(entry.name, kLine), entry.tasks, entry.tasks == 1 ? "" : "s",
                     entry.shells, entry.shells == 1 ? "" : "s", printable(entry.place.host, kLine),
                     printable(fmt::format("{}", fmt::join(entry.command, " ")), kLine), date_of(entry.started)) +
         notes;
}

// How the job, which has ended, has ended.
std::string end_of(const record::JobEntry& entry, const std::optional<OtherCode>& other) {
  const record::EntryEnd& end = *entry.end;
  std::string how = end.vanished ? "vanished" : fmt::format("ended with exit code {}", end.code);
  std::string out = fmt::format("{} {}, {} after its start\n", date_of(end.time), how,
                                time_text(record::time_of(entry, {}, end.time)));
  if (other) out += fmt::format("policy {}: exit code {}\n", other->policy, other->code);
  if (!end.cause.empty()) out += fmt::format("because: {}\n", printable(end.cause, kLine));
  out += exits_text(end.exits);
  if (!end.report.is_object()) return out;
  return out + (end.code != 0 ? exits::report_text(end.report) : exits::slow_lines(end.report));
}

// How far the job is; `exits`: its leader's answer to `exits`.
std::string progress_of(const record::JobEntry& entry, const Json& exits) {
  return fmt::format("runs since {}: ranks {}\n",
                     time_text(record::time_of(entry, record::own_witness(), event::wall_clock())),
                     printable(exits.value("running", ""), kRanks)) +
         exits_text(exits.value("exits", Json::array()));
}

// ---- report verb ------------------------------------------------------------------------

namespace {

// The value of --bundle if the user gives none.
constexpr const char* kWithoutValue = "true";
constexpr std::size_t kMostHost = 64;  // bytes of a host's name

class Report final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb_
        ->add_option("--policy", policy_,
                     "Also print the exit code that the job would have by this policy, see nacre-exits(7)")
        ->option_text("max|main|all|main+all|first")
        ->check(exits::Policy::kind_of);
    verb_->add_flag("--usage", usage_, "Print what the tasks have used instead")->excludes({"--policy"});
    verb_->add_flag("--all", all_, "A row for each task that has ended; only while the job runs; needs --usage")
        ->needs({"--usage"});
    verb_->add_option("--plot", plot_, "Also draw what the tasks have used: SVG, to FILE; needs --usage")
        ->option_text("FILE")
        ->needs({"--usage"})
        ->check(cli::not_empty("a file"));
    verb_
        ->add_flag("--bundle", bundle_,
                   "Write all that is known of the job to FILE instead, one archive for a ticket", kWithoutValue)
        ->option_text("[=FILE]")
        ->excludes({"--usage", "--policy"});
    verb_
        ->add_flag("--hosts", hosts_,
                   "List the hosts that your jobs have found to be bad within a week instead, see nacre-report(1)")
        ->excludes({"--usage", "--policy", "--bundle"});
    verb_->add_flag("--force", force_, "Replace FILE if it is there; needs --bundle")->needs({"--bundle"});
    add_reach();
  }

 private:
  Result<int> run_verb() override {
    if (hosts_) return report_hosts();
    record::Listed job = TRY(this->job());
    if (usage_) return report_usage(job);
    if (!bundle_.empty()) return write_bundle(job);
    if (job.entry.ended()) {
      std::optional<int> code;
      if (!policy_.empty()) {
        auto kind = TRY(exits::Policy::kind_of(policy_));
        code = TRY(in(fmt::format("job {}: --policy={}", job.entry.id.f58_plain(), policy_),
                      record::code_by(kind, *job.entry.end)));
      }
      print(job.entry, code);
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

  // ---- hosts -----------------------------------------------------------------------

  Result<int> report_hosts() {
    if (!names_.empty())
      return invalid("--hosts is about all of your jobs: leave out " + in_quotes(names_.front()));
    const double now = event::wall_clock();
    const auto found = record::BadHosts::read(list().directories, now);
    if (json_) {
      for (const record::BadHostNote& each : found.notes) print_out("{}\n", each.text());
      return 0;
    }
    if (found.notes.empty()) {
      if (!quiet_) print_out("no job of yours has found a bad host within a week (nacre run --health)\n");
      return 0;
    }
    Table table({{"HOST"}, {"LAST"}, {"TIMES", Table::Side::right}, {"WHY"}});
    for (const auto& [host, summary] : found.by_host()) {
      const record::BadHostNote& last = summary.last;
      table.add({printable(host, kMostHost), time_text(now - last.time) + " ago", std::to_string(summary.times),
                 printable(last.check + ": " + last.reason, record::BadHosts::kMostReason)});
    }
    print_out("{}", table.text(!quiet_));
    return 0;
  }

  // ---- usage -----------------------------------------------------------------------

  Result<int> report_usage(const record::Listed& job) {
    Json rows = Json::array();
    Json usage = job.entry.ended() ? TRY(kept_usage(job.entry)) : TRY(usage_so_far(job, rows));
    if (!usage.is_object())
      return invalid(
          fmt::format("job {}: what its tasks use is not measured{}: start it with --usage, or -o usage",
                      job.entry.id.f58_plain(),
                      job.entry.ended() ? "" : ", and only its end tells their CPU time and largest RSS"));
    if (!plot_.empty() && usage::is_unmeasured(usage))
      return invalid(
          fmt::format("job {}: --plot={}: what its tasks have used was not measured, so there is nothing "
                      "to draw: start it with --usage, or -o usage",
                      job.entry.id.f58_plain(), plot_));
    if (!plot_.empty())
      CHECK_OK(write_whole_file(
          plot_, usage::svg_of(usage, fmt::format("job {}: {}", job.entry.id.f58_plain(), title_of(job.entry)))));
    if (json_) {
      print_usage_lines(usage, rows);
      return 0;
    }
    if (!quiet_) print_out(head_of(job.entry));
    if (all_) print_out("{}", usage::rows_text(rows));
    print_out("{}", usage::summary_text(usage, "", is_utf8_terminal(STDOUT_FILENO)));
    return 0;
  }

  static std::string title_of(const record::JobEntry& entry) {
    std::vector<std::string> words = record::words_without_secrets(entry.command);
    return fmt::format("{}", fmt::join(words, " ")).substr(0, usage::kMostTitle);
  }

  Result<Json> kept_usage(const record::JobEntry& entry) const {
    if (all_)
      return invalid(
          fmt::format("job {} has ended: --all is for one that runs; of others --usage=FILE of nacre run "
                      "has a row for each task",
                      entry.id.f58_plain()));
    return entry.end->usage;
  }

  Result<Json> usage_so_far(const record::Listed& job, Json& rows) {
    control::Client client = TRY(reach_job(job));
    Json arguments{{"rows", all_}};
    if (!plot_.empty()) arguments["cells"] = usage::kMostCells;
    Json answer = TRY(client.ask("usage", arguments, [&](const Json& part) {
      auto some = part.find("rows");
      if (some == part.end() || !some->is_array()) return;
      for (const Json& each : *some) rows.push_back(each);
    }));
    return answer.value("usage", Json());
  }

  static void print_usage_lines(const Json& usage, const Json& rows) {
    auto print = [](Json line, const char* type) {
      line["type"] = type;
      print_out("{}\n", dump_json(line));
    };
    for (const Json& each : rows) print(each, "task");
    print(usage, "summary");
  }

  // ---- a bundle ----------------------------------------------------------------------

  Result<int> write_bundle(const record::Listed& job) {
    std::string path =
        bundle_ == kWithoutValue ? fmt::format("nacre-{}.tar.zst", job.entry.id.f58_plain()) : bundle_;
    record::JobEntry entry = shown(job.entry);
    BundleSources from{entry, head_of(entry), {}, {}, {}, {}, {}, "", ""};
    const record::EntryDirectory& directory = list().directories[job.place];
    Json about{{"format", 1}, {"nacre", kVersion}, {"job", entry.id.f58_plain()}, {"time", event::wall_clock()}};
    if (job.entry.ended()) {
      from.text += end_of(entry, {});
      read_details(directory, job.entry, from);
    } else {
      CHECK_OK(ask_leader(job, from));
      from.text += progress_of(entry, from.exits);
    }
    about["state"] = job.entry.ended() ? "ended" : "running";
    if (directory.read_output(job.entry.id))
      from.own_output = fmt::format("{}/{}.out", directory.path(), job.entry.id.f58_plain());
    auto written = TRY(bundle_of(from).write(path, force_, about));
    if (json_)
      print_out("{}\n", dump_json({{"bundle", path}, {"files", written.files}, {"bytes", written.bytes}}));
    else if (!quiet_)
      print_out("{}: {} files of job {}, {} bytes; look through it before you send it to anybody\n", path,
                written.files, job.entry.id.f58_plain(), written.bytes);
    return 0;
  }

  static record::JobEntry shown(record::JobEntry entry) {
    entry.command = record::words_without_secrets(entry.command);
    if (!entry.end) return entry;
    entry.end->cause = record::text_without_secrets(entry.end->cause);
    entry.end->report = record::json_without_secrets(entry.end->report);
    return entry;
  }

  static void read_details(const record::EntryDirectory& directory, const record::JobEntry& entry,
                           BundleSources& from) {
    auto text = directory.read_details(entry.id);
    auto details = text ? parse_json(*text) : Result<Json>(text.error());
    if (details && details->is_object()) {
      from.details = *std::move(details);
      return;
    }
    bool is_missing = !text && text.error().code == ENOENT;
    from.why_no_details = is_missing ? "they are kept of a job that has run for half a second, or has failed"
                          : details  ? directory.path() + ": the details are no JSON object"
                                     : details.error().message;
  }

  Result<void> ask_leader(const record::Listed& job, BundleSources& from) {
    control::Client client = TRY(reach_job(job));
    from.exits = TRY(client.ask("exits"));
    from.report = TRY(client.ask("report"));
    from.usage = TRY(client.ask("usage", {{"rows", false}})).value("usage", Json());
    if (auto timeline = client.ask("timeline", {{"trace", false}}))
      from.timeline = timeline->value("summary", Json());
    auto details = client.ask("details");
    if (details)
      from.details = *std::move(details);
    else if (details.error().code == ENOSYS)
      from.why_no_details = details.error().message;
    else
      return std::move(details).error();
    return {};
  }

  // ---- how it has ended --------------------------------------------------------------

  // `code`: by the policy that was asked for.
  void print(const record::JobEntry& entry, std::optional<int> code) const {
    if (json_) {
      Json out = Json::parse(entry.text());
      if (code) out["policy"] = {{"name", policy_}, {"code", *code}};
      print_out("{}\n", dump_json(out));
      return;
    }
    if (!quiet_) print_out(head_of(entry));
    std::optional<OtherCode> other;
    if (code) other = {policy_, *code};
    print_out(end_of(entry, other));
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
    if (!quiet_) print_out(head_of(entry));
    print_out(progress_of(entry, exits));
  }

  std::string policy_;
  std::string plot_;    // a file; "": none
  std::string bundle_;  // a file, or kWithoutValue; "": none
  bool usage_ = false, all_ = false, force_ = false;
  bool hosts_ = false;
};

}  // namespace

VerbPtr make_report() { return std::make_unique<Report>(); }

// ---- whole file -------------------------------------------------------------------------

Result<void> write_whole_file(const std::string& path, std::string_view text) {
  constexpr mode_t kMode = 0666;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!fd) return system_error(errno, path);
  if (int failed = write_all(fd.get(), text); failed != 0) return system_error(failed, path);
  return {};
}

}  // namespace nacre::front
