// SPDX-License-Identifier: Apache-2.0
#include "front/given_options.hpp"

#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "boot/allocation.hpp"
#include "cli/command_line.hpp"
#include "job/options.hpp"
#include "job/rehearsal.hpp"

namespace nacre::front {
namespace {

constexpr std::uint64_t kManyTasks = 1U << 31;
constexpr const char* kCommandLine = "command line";

// "on" is 1, 25% are not 50%, 60 is "1m", and a switch is also turned on by an object.
bool is_same(const GivenOption& mine, const JsonAt& theirs) {
  if (mine.value == theirs.json()) return true;
  JsonAt own = JsonAt::root(mine.value, mine.name);
  if (mine.name == "exit-on-error") {
    auto limit = job::failure_limit_option(own, kManyTasks);
    auto other = job::failure_limit_option(theirs, kManyTasks);
    return limit && other && *limit == *other;
  }
  if (mine.name == "time-limit") {
    auto first = job::seconds_option(own);
    auto second = job::seconds_option(theirs);
    return first && second && first->seconds() == second->seconds();
  }
  if (!mine.value.is_boolean()) return false;
  auto on = theirs.json().is_object() ? Result<bool>(true) : job::switch_of(theirs);
  return on && *on == mine.value.get<bool>();
}

}  // namespace

std::string contradiction(std::string_view one, std::string_view other) {
  return fmt::format("{} and {} contradict each other: give one of them", one, other);
}

Result<void> refuse_contradictions(const std::vector<GivenOption>& given, const std::vector<std::string>& setopt) {
  for (const std::string& argument : setopt) {
    job::Options set;
    CHECK_OK(in("-o " + argument, set.set_from_argument(argument)));
    for (const GivenOption& each : given) {
      auto theirs = set.value_at(each.name);
      if (theirs && !is_same(each, *theirs)) return invalid(contradiction(each.word, "-o " + argument));
    }
  }
  return {};
}

std::map<std::string, std::string> sources_of(const std::vector<GivenOption>& given,
                                              const std::vector<std::string>& setopt) {
  std::map<std::string, std::string> out;
  for (const GivenOption& each : given) out[each.name] = kCommandLine;
  for (const std::string& each : setopt) out[each.substr(0, each.find('='))] = kCommandLine;
  return out;
}

// ---- exit options -----------------------------------------------------------------------

namespace {

struct Choice {
  std::string word;  // as it was given
  std::string policy;
};

}  // namespace

void ExitOptions::add_to(cli::CommandLine& verb) {
  verb.begin_group("Exit code", "see nacre-exits(7)");
  verb.add_option("--exit-policy", policy_, "How the job's exit code follows from its tasks' (default: max)")
      ->option_text("max|main|all|main+all|first")
      ->check(cli::one_of({"max", "main", "all", "main+all", "first"}));
  verb.add_number("--exit-main", main_, "The main rank (default: 0)", {0, UINT32_MAX - 1})->option_text("RANK");
  verb.add_option("--exit-ok", ok_, "Exit codes of tasks that count as success, beside 0: 77 or 64-78,99")
      ->option_text("CODES");
  verb.add_option("--report", report_, "Write how the job has ended to FILE of this host, as JSON")
      ->option_text("FILE");
  verb.add_flag("--require-all-success", all_, "Is --exit-policy=all");
  verb.add_flag("--check-all-nodes", all_nodes_, "Is --exit-policy=main+all");
  verb.add_flag("-S,--any-failure", any_, "Is --exit-policy=max");
  verb.add_flag("-K,--fail-fast", fail_fast_,
                "Tasks that fail end the job: the first one, N, or P% of all; see exit-on-error", kWithoutValue)
      ->option_text("[=N|P%|first]");
  verb.add_option("--restart", restart_, "Start tasks again that end, up to 3 times in all: see restart")
      ->option_text(
          "never|on-failure|always[,max=N][,per-task=N][,backoff=TIME[:TIME]][,codes=SET][,scope=...][,where=...]");
  verb.add_option(
          "--hang-watch", hang_watch_,
          "Print who hangs if no task does anything for this long, and perhaps end the job: nacre-doctor(1)")
      ->option_text("DURATION[,kill]");
  verb.begin_group("");
}

Result<void> ExitOptions::check(const std::vector<std::string>& setopt) {
  CHECK_OK(choose_policy());
  CHECK_OK(check_values());
  std::vector<GivenOption> all;
  for (const auto& [word, option] : given()) {
    job::Options set;
    std::string name = option.substr(0, option.find('='));
    if (set.set_from_argument(option)) all.push_back({word, name, set.value_at(name)->json()});
  }
  return refuse_contradictions(all, setopt);
}

Result<void> ExitOptions::choose_policy() {
  std::vector<Choice> choices;
  if (!policy_.empty()) choices.push_back({"--exit-policy=" + policy_, policy_});
  if (all_) choices.push_back({"--require-all-success", "all"});
  if (all_nodes_) choices.push_back({"--check-all-nodes", "main+all"});
  if (any_) choices.push_back({"--any-failure", "max"});
  if (choices.empty()) return {};
  for (const Choice& each : choices) {
    if (each.policy != choices[0].policy) return invalid(contradiction(choices[0].word, each.word));
  }
  policy_ = choices[0].policy;
  policy_word_ = choices[0].word;
  return {};
}

Result<void> ExitOptions::check_values() const {
  if (!ok_.empty()) CHECK_OK(job::exit_codes_option(JsonAt::root(Json(ok_), "--exit-ok")));
  auto restart =
      job::RestartOption::read(job::Options(restart_.empty() ? Json::object() : Json{{"restart", restart_}}));
  if (!restart) return invalid("--" + restart.error().message);
  if (!fail_fast_.empty()) CHECK_OK(job::failure_limit_option(JsonAt::root(Json(fail_fast_), "--fail-fast"), 1));
  return {};
}

std::vector<std::pair<std::string, std::string>> ExitOptions::given() const {
  std::vector<std::pair<std::string, std::string>> out;
  if (!policy_.empty()) out.emplace_back(policy_word_, "exit-policy=" + policy_);
  if (main_) out.emplace_back(fmt::format("--exit-main={}", *main_), fmt::format("exit-main={}", *main_));
  if (!ok_.empty()) out.emplace_back("--exit-ok=" + ok_, "exit-ok=" + ok_);
  if (!fail_fast_.empty()) out.emplace_back("--fail-fast=" + fail_fast_, "exit-on-error=" + fail_fast_);
  if (!restart_.empty()) out.emplace_back("--restart=" + restart_, "restart=" + restart_);
  if (!hang_watch_.empty()) out.emplace_back("--hang-watch=" + hang_watch_, "hang-watch=" + hang_watch_);
  return out;
}

std::vector<std::string> ExitOptions::shell_options() const {
  std::vector<std::string> out;
  for (const auto& [word, option] : given()) out.push_back(option);
  return out;
}

std::vector<std::string> ExitOptions::defaults(const job::Options& options) {
  if (options.find("exit-timeout.after") != nullptr) return {};
  return {"exit-timeout.after=failure"};
}

// ---- rehearse options -------------------------------------------------------------------

namespace {

constexpr const char* kRehearse = "rehearse";
constexpr const char* kForce = "rehearse-force";

}  // namespace

void RehearseOptions::add_to(cli::CommandLine& verb) {
  verb.add_option("--rehearse", events_,
                  "Do this to the job, to see what becomes of it: 'kill n2 at 30s; freeze rank 5 for 5s'")
      ->option_text("EVENTS")
      ->check(job::Rehearsal::parse);
  verb.add_flag("--rehearse-force", force_,
                "Also where a manager has given the nodes, and may take them out of use; needs --rehearse")
      ->needs({"--rehearse"});
}

std::vector<GivenOption> RehearseOptions::given() const {
  std::vector<GivenOption> out;
  if (!events_.empty()) out.push_back({"--rehearse=" + events_, kRehearse, events_});
  if (force_) out.push_back({"--rehearse-force", kForce, true});
  return out;
}

std::vector<std::string> RehearseOptions::shell_options() const {
  std::vector<std::string> out;
  if (!events_.empty()) out.push_back(fmt::format("{}={}", kRehearse, events_));
  if (force_) out.push_back(fmt::format("{}=on", kForce));
  return out;
}

Result<void> RehearseOptions::allow(bool by_srun) const {
  if (events_.empty() || force_) return {};
  auto allocation = TRY(boot::allocation_of(own_variable));
  if (!allocation && !by_srun) return {};
  return invalid(
      fmt::format("--rehearse: {}, and a manager may take a node whose shell is killed out of use: leave the "
                  "allocation, or add "
                  "--rehearse-force",
                  allocation ? fmt::format("this is within an allocation ({})", allocation->source)
                             : "srun starts the shells"));
}

// ---- show options -----------------------------------------------------------------------

namespace {

constexpr const char* kEvents = "output.events";

}  // namespace

void ShowOptions::add_to(cli::CommandLine& verb, const char* explained) {
  verb.add_option("--format", format_, "json: output and events as lines of JSON, all to stdout (default: text)")
      ->option_text("text|json")
      ->check(cli::one_of({"text", "json"}));
  verb.add_flag("-q,--quiet", quiet_, "Print only warnings and errors beside the tasks' output")
      ->excludes({"--verbose"});
  verb.add_flag("--explain", explain_,
                "Print where tasks run, with env also their variables, with all the whole plan, and start none",
                explained)
      ->option_text("[=brief|env|all]")
      ->check(cli::one_of({"brief", "env", "all"}));
}

std::vector<GivenOption> ShowOptions::given() const {
  if (format_.empty()) return {};
  return {{"--format=" + format_, kEvents, is_json()}};
}

std::vector<std::string> ShowOptions::shell_options() const {
  if (!is_json()) return {};
  return {kEvents};
}

std::vector<std::string> ShowOptions::shell_words() const {
  std::vector<std::string> out;
  if (explains()) out.push_back(explain_ == "all" ? "--explain" : "--explain=" + explain_);
  if (quiet_) out.emplace_back("--quiet");
  return out;
}

// ---- timeline option --------------------------------------------------------------------

namespace {

constexpr const char* kTimeline = "timeline";

}  // namespace

void TimelineOption::add_to(cli::CommandLine& verb) {
  verb.add_flag("--timeline", file_,
                "Print how long each step of the launch took when the job has ended; or write a trace of all that "
                "happens to FILE",
                kWithoutValue)
      ->option_text("[=FILE]");
}

bool TimelineOption::prints() const { return file_ == kWithoutValue; }

std::vector<GivenOption> TimelineOption::given() const {
  if (prints()) return {{"--timeline", kTimeline, true}};
  if (!file_.empty()) return {{"--timeline=" + file_, kTimeline, file_}};
  return {};
}

// A leader on another host gets its file beside this, and the other shells only this.
std::vector<std::string> TimelineOption::shell_options() const {
  return file_.empty() ? std::vector<std::string>() : std::vector<std::string>{"timeline=on"};
}

Result<std::vector<LaunchReport>> TimelineOption::reports() const {
  std::vector<LaunchReport> out;
  if (file_.empty() || prints()) return out;
  CHECK_OK(in("--timeline", check_replaceable(file_)));
  out.push_back({"--timeline", kTimeline, file_, true});
  return out;
}

// ---- usage options ----------------------------------------------------------------------

namespace {

constexpr const char* kUsage = "usage";
constexpr const char* kJoblog = "joblog";
constexpr const char* kUsagePlot = "usage-plot";
constexpr const char* kUsageGpu = "usage-gpu";

}  // namespace

void UsageOptions::add_to(cli::CommandLine& verb) {
  verb.add_flag("--usage", usage_,
                "Print what tasks have used when the job has ended; or write it to FILE as lines of JSON",
                kWithoutValue)
      ->option_text("[=FILE]");
  verb.add_option("--joblog", joblog_, "Write a line for each task to FILE of this host, as GNU parallel does")
      ->option_text("FILE")
      ->check(cli::not_empty("a file"));
  verb.add_option("--usage-plot", plot_,
                  "Draw what tasks have used when the job has ended: SVG, to FILE of this host")
      ->option_text("FILE")
      ->check(cli::not_empty("a file"));
  verb.add_flag("--usage-gpu", gpus_, "Measure what tasks use of GPUs too, by nvidia-smi and rocm-smi");
}

bool UsageOptions::prints() const { return usage_ == kWithoutValue; }

std::vector<GivenOption> UsageOptions::given() const {
  std::vector<GivenOption> out;
  if (prints())
    out.push_back({"--usage", kUsage, true});
  else if (!usage_.empty())
    out.push_back({"--usage=" + usage_, kUsage, usage_});
  if (!joblog_.empty()) out.push_back({"--joblog=" + joblog_, kJoblog, joblog_});
  if (!plot_.empty()) out.push_back({"--usage-plot=" + plot_, kUsagePlot, plot_});
  if (gpus_) out.push_back({"--usage-gpu", kUsageGpu, true});
  return out;
}

// A leader on another host gets its files beside these, and the other shells only these.
std::vector<std::string> UsageOptions::shell_options() const {
  std::vector<std::string> out;
  if (!usage_.empty()) out.emplace_back("usage=on");
  if (!joblog_.empty()) out.emplace_back("joblog=on");
  if (!plot_.empty()) out.emplace_back("usage-plot=on");
  if (gpus_) out.emplace_back("usage-gpu=on");
  return out;
}

std::vector<LaunchReport> UsageOptions::reports() const {
  std::vector<LaunchReport> out;
  if (!usage_.empty() && !prints()) out.push_back({"--usage", kUsage, usage_, true});
  if (!joblog_.empty()) out.push_back({"--joblog", kJoblog, joblog_, true});
  if (!plot_.empty()) out.push_back({"--usage-plot", kUsagePlot, plot_, true});
  return out;
}

}  // namespace nacre::front
