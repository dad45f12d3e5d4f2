// SPDX-License-Identifier: Apache-2.0
#include "front/given_options.hpp"

#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "boot/allocation.hpp"
#include "cli/command_line.hpp"
#include "exits/policy.hpp"
#include "group/directory.hpp"
#include "job/container_option.hpp"
#include "job/options.hpp"
#include "job/rehearsal.hpp"

namespace nacre::front {

// ---- the table --------------------------------------------------------------------------

// What becomes of the value.
enum class Way : std::uint8_t {
  text,    // the text is the option's value, or `value_of` makes the value from it
  parsed,  // as text, but read as -o reads it
  sent,    // a file of this host, which gets from the leader what the option is for; the shells have "on"
  carried  // as sent, but only the writing shell has the option
};

struct WordRow {
  unsigned verbs;     // of GivenOptions::Verb
  const char* group;  // of --help
  const char* words;  // its names: "-l,--label-io"
  const char* name;   // the shell's option, a dotted path
  Way way;
  const char* value_text;  // its value in --help; "": it has none; "[=...]": it may have one
  const char* without;     // the option's value if the user gives none, as -o takes it
  const char* help;
  // Makes the option's value where `way` does not. An error says what was expected.
  Result<Json> (*value_of)(const std::string& text) = nullptr;
  const char* needs = nullptr;  // another option, by a name

  [[nodiscard]] bool is_of(GivenOptions::Verb verb) const { return (verbs & static_cast<unsigned>(verb)) != 0; }
  [[nodiscard]] std::string word() const {  // "--label-io"
    auto names = split(words, ',');
    auto is_long = [](std::string_view each) { return each.starts_with("--"); };
    return std::string(*std::find_if(names.begin(), names.end(), is_long));
  }
};

namespace {

constexpr unsigned kRun = static_cast<unsigned>(GivenOptions::Verb::run);
constexpr unsigned kLaunch = static_cast<unsigned>(GivenOptions::Verb::launch);
constexpr unsigned kBoth = kRun | kLaunch;

constexpr const char* kTasks = "Tasks";
constexpr const char* kStreams = "Input and output";
constexpr const char* kExitCode = "Exit code";

constexpr std::uint64_t kManyTasks = 1U << 31;
constexpr const char* kCommandLine = "command line";

// For -o "77" is a number.
Result<Json> as_argument(std::string_view name, const std::string& text) {
  job::Options set;
  CHECK_OK(set.set_from_argument(fmt::format("{}={}", name, text)));
  return set.value_at(name)->json();
}

Result<Json> one_of(const std::string& text, std::string_view words) {
  std::vector<std::string> all;
  for (std::string_view each : split(words, '|')) all.emplace_back(each);
  CHECK_OK(cli::one_of(std::move(all))(text));
  return Json(text);
}

Result<Json> number(const std::string& text, std::uint32_t most) {
  auto value = parse_u64(text);
  if (!value || *value > most) return cli::NumberRange{0, static_cast<double>(most)}.expected(text);
  return Json(*value);
}

Result<Json> spares(const std::string& text) { return number(text, group::Membership::kMaxShells - 1); }

Result<Json> lost_policy(const std::string& text) {
  return one_of(text, "end|go-on|replace|replace,else=end|replace,else=go-on");
}

Result<Json> at_most(const std::string& text) {
  if (text == "cores") return Json(text);
  auto value = parse_u64(text);
  if (!value || *value < 1 || *value > job::Jobspec::kMaxCount)
    return invalid(
        fmt::format("expected a number from 1 to {}, or cores, got {}", job::Jobspec::kMaxCount, in_quotes(text)));
  return Json(*value);
}

Result<Json> cpu_affinity(const std::string& text) {
  CHECK_OK(one_of(text, "thread|core|l3|numa|package|none"));
  return Json(text == "none" ? "off" : "per-task:" + text);
}

Result<Json> memory_policy(const std::string& text) { return one_of(text, "bind|prefer|interleave"); }

Result<Json> fold(const std::string& text) { return one_of(text, "ranks|hosts"); }

Result<Json> is_json(const std::string& text) { return Json(TRY(one_of(text, "text|json")) == "json"); }

Result<Json> health(const std::string& text) { return one_of(text, "off|quick|pairs"); }

Result<Json> exit_policy(const std::string& text) { return one_of(text, "max|main|all|main+all|first"); }

Result<Json> exit_classes(const std::string& text) {
  CHECK_OK(exits::ExitClasses::parse(text));
  return Json(text);
}

Result<Json> main_rank(const std::string& text) { return number(text, UINT32_MAX - 1); }

Result<Json> exit_codes(const std::string& text) {
  CHECK_OK(job::exit_codes_option(JsonAt::root(Json(text))));
  return as_argument("exit-ok", text);
}

Result<Json> failure_limit(const std::string& text) {
  CHECK_OK(job::failure_limit_option(JsonAt::root(Json(text)), 1));
  return as_argument("exit-on-error", text);
}

// Reads it as the shell does, so that mistakes are reported here.
template <typename Option>
Result<Json> read_as(const char* name, const std::string& text) {
  const std::string place = fmt::format("{}: ", name);
  job::Options set;
  set.set(name, text);
  auto read = Option::read(set);
  if (read) return as_argument(name, text);
  std::string_view message = read.error().message;
  return invalid(std::string(message.substr(message.starts_with(place) ? place.size() : 0)));
}

Result<Json> restart(const std::string& text) { return read_as<job::RestartOption>("restart", text); }
Result<Json> slow_watch(const std::string& text) { return read_as<job::SlowWatchOption>("slow-watch", text); }
Result<Json> container(const std::string& text) {
  constexpr std::string_view kPlace = "container: ";
  job::Options set;
  set.set("container", text);
  auto read = job::ContainerOption::read(set);
  if (read) return Json(text);
  std::string_view message = read.error().message;
  return invalid(std::string(message.substr(message.starts_with(kPlace) ? kPlace.size() : 0)));
}

Result<Json> rehearsal(const std::string& text) {
  CHECK_OK(job::Rehearsal::parse(text));
  return Json(text);
}

Result<Json> report_place(const std::string& text) {
  CHECK_OK(check_report_place(text));
  return Json(text);
}

Result<Json> file(const std::string& text) {
  CHECK_OK(cli::not_empty("a file")(text));
  return Json(text);
}

Result<Json> ranks(const std::string& text) {
  CHECK_OK(cli::not_empty("ranks, as 0-3,7, or all")(text));
  return Json(text);
}

// In the order of use.
const WordRow kWords[] = {
    {kBoth, kTasks, "--spares", "spares", Way::text, "N", "",
     "The last N nodes are spares: they are prepared, and get no tasks", spares},
    {kBoth, kTasks, "--on-lost", "on-lost", Way::text, "end|go-on|replace[,else=end|go-on]", "",
     "If a node with tasks is lost: end the job, go on without, or let a spare start the tasks again", lost_policy},
    {kBoth, kTasks, "--health", "health", Way::text, "off|quick|pairs", "",
     "Look at each host first: a bad one is left out if a spare can take its tasks, else the job ends", health},
    {kBoth, kTasks, "--oversubscribe", "oversubscribe", Way::parsed, "", "true",
     "Let tasks share cores where there are not enough"},
    {kBoth, kTasks, "--at-most", "at-most", Way::text, "N|cores", "",
     "On each host let N tasks run at the same time, and start the next as one ends", at_most},
    {kRun, kTasks, "--cpu-bind", "cpu-affinity", Way::text, "thread|core|l3|numa|package|none", "",
     "Bind each task to its part of the node: whole threads, cores, caches, ...; or none", cpu_affinity},
    {kRun, kTasks, "--mem-bind", "mem-affinity", Way::text, "bind|prefer|interleave", "",
     "Memory of the NUMA nodes where a task's cpus are", memory_policy},
    {kRun, kTasks, "--taskmap", "taskmap", Way::text, "SCHEME[:VALUE]", "",
     "Which task is on which node: block, cyclic[:N], manual:MAP, hostfile:FILE"},

    {kRun, kStreams, "--output", "output.stdout.path", Way::text, "FILE", "",
     "Standard output to FILE, a template: out.{{task.rank}}"},
    {kRun, kStreams, "--error", "output.stderr.path", Way::text, "FILE", "",
     "Standard error to FILE (default: as --output)"},
    {kRun, kStreams, "--input", "input.stdin.path", Way::text, "FILE", "", "Standard input from FILE"},
    {kRun, kStreams, "--input-ranks", "input.ranks", Way::text, "RANKS", "",
     "Only these tasks get the input (default: all)", ranks},
    {kRun, kStreams, "-l,--label-io", "label-io", Way::parsed, "", "true", "Put the task's rank before each line"},
    {kRun, kStreams, "--fold", "output.fold", Way::parsed, "[=ranks|hosts]", "true",
     "Print equal lines of several tasks once, with their ranks, or their hosts", fold},
    {kRun, kStreams, "-u,--unbuffered", "output.stdout.buffer.type", Way::parsed, "", "none",
     "Write at once what tasks write, not by lines"},

    {kRun, "", "--container", "container", Way::text,
     "IMAGE[,bind=SOURCE:TARGET[:ro]]...[,env=NAME]...[,runtime=podman|apptainer|enroot|docker]", "",
     "Run each task in a container of IMAGE, which is brought to each node once: see container", container},
    {kRun, "", "--torch", "torch", Way::parsed, "", "true",
     "Set what torch.distributed needs, for a task each process"},
    {kRun, "", "--rehearse", "rehearse", Way::text, "EVENTS", "",
     "Do this to the job, to see what becomes of it: 'kill n2 at 30s; freeze rank 5 for 5s'", rehearsal},
    {kRun, "", "--rehearse-force", "rehearse-force", Way::parsed, "", "true",
     "Also where a manager has given the nodes, and may take them out of use; needs --rehearse", nullptr,
     "--rehearse"},
    {kBoth, "", "--format", "output.events", Way::text, "text|json", "",
     "json: output and events as lines of JSON, all to stdout (default: text)", is_json},
    {kBoth, "", "--notify", "exit-notify", Way::carried, "FILE|FD", "",
     "Write how tasks end, as lines of JSON, to FILE or descriptor FD", report_place},
    {kBoth, "", "--usage", "usage", Way::sent, "[=FILE]", "true",
     "Print what tasks have used when the job has ended; or write it to FILE as lines of JSON"},
    {kBoth, "", "--joblog", "joblog", Way::sent, "FILE", "",
     "Write a line for each task to FILE of this host, as GNU parallel does", file},
    {kBoth, "", "--usage-plot", "usage-plot", Way::sent, "FILE", "",
     "Draw what tasks have used when the job has ended: SVG, to FILE of this host", file},
    {kBoth, "", "--usage-gpu", "usage-gpu", Way::parsed, "", "true",
     "Measure what tasks use of GPUs too, by nvidia-smi and rocm-smi"},
    {kBoth, "", "--timeline", "timeline", Way::sent, "[=FILE]", "true",
     "Print how long each step of the launch took when the job has ended; or write a trace of all that happens to "
     "FILE"},

    {kBoth, kExitCode, "--exit-policy", "exit-policy", Way::text, "max|main|all|main+all|first", "",
     "How the job's exit code follows from its tasks' (default: max)", exit_policy},
    {kBoth, kExitCode, "--exit-main", "exit-main", Way::text, "RANK", "", "The main rank (default: 0)", main_rank},
    {kBoth, kExitCode, "--exit-ok", "exit-ok", Way::text, "CODES", "",
     "Exit codes of tasks that count as success, beside 0: 77 or 64-78,99", exit_codes},
    {kBoth, kExitCode, "--exit-class", "exit-class", Way::text, "CLASS:CODE[,...]", "",
     "Exit codes by whose failure it is: host:75,user:cause,no-progress:93", exit_classes},
    {kBoth, kExitCode, "--report", "report", Way::carried, "FILE", "",
     "Write how the job has ended to FILE of this host, as JSON", file},
    {kBoth, kExitCode, "--require-all-success", "exit-policy", Way::parsed, "", "all", "Is --exit-policy=all"},
    {kBoth, kExitCode, "--check-all-nodes", "exit-policy", Way::parsed, "", "main+all",
     "Is --exit-policy=main+all"},
    {kBoth, kExitCode, "-S,--any-failure", "exit-policy", Way::parsed, "", "max", "Is --exit-policy=max"},
    {kBoth, kExitCode, "-K,--fail-fast", "exit-on-error", Way::parsed, "[=N|P%|first]", "true",
     "Tasks that fail end the job: the first one, N, or P% of all; see exit-on-error", failure_limit},
    {kBoth, kExitCode, "--restart", "restart", Way::text,
     "never|on-failure|always[,max=N][,per-task=N][,backoff=TIME[:TIME]][,codes=SET][,scope=...][,where=...]", "",
     "Start tasks again that end, up to 3 times in all: see restart", restart},
    {kBoth, kExitCode, "--hang-watch", "hang-watch", Way::parsed, "DURATION[,restart|,kill]", "",
     "Print who hangs if no task does anything for this long; then start it again, or end the job: "
     "nacre-doctor(1)"},
    {kBoth, kExitCode, "--slow-watch", "slow-watch", Way::text, "[=DURATION][,output[:WORD]][,factor=F]", "on",
     "Print which hosts and tasks are slower than the others for three windows (default: of 30s)", slow_watch},
};

// The option's value for what was given: `text` is "" if the user gave no value.
Json value_of(const WordRow& row, const std::string& text) {
  const std::string value = text.empty() ? row.without : text;
  if (text.empty() || (row.way == Way::parsed && row.value_of == nullptr)) return *as_argument(row.name, value);
  return row.value_of != nullptr ? *row.value_of(value) : Json(value);
}

// Compares by meaning: "on" is 1, 25% is not 50%, 60 is "1m", and an object turns a switch on.
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

// ---- what is given ----------------------------------------------------------------------

std::string contradiction(std::string_view one, std::string_view other) {
  return fmt::format("{} and {} contradict each other: give one of them", one, other);
}

Result<void> refuse_contradictions(const std::vector<GivenOption>& given, const std::vector<std::string>& setopt) {
  for (auto each = given.begin(); each != given.end(); ++each) {
    auto other = std::find_if(given.begin(), each, [&](const GivenOption& earlier) {
      return earlier.name == each->name && earlier.value != each->value;
    });
    if (other != each) return invalid(contradiction(other->word, each->word));
  }
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

void GivenOptions::add_to(cli::CommandLine& verb, std::string_view group) {
  for (const WordRow& row : kWords) {
    if (!row.is_of(verb_) || row.group != group) continue;
    const std::string_view text = row.value_text;
    auto take = [this, &row](const std::string& value) -> Result<void> {
      if (row.value_of != nullptr && (!value.empty() || *row.without == '\0')) CHECK_OK(row.value_of(value));
      taken_.push_back({&row, value});
      return {};
    };
    cli::Option* option = verb.add_option(row.words, take, row.help)->option_text(row.value_text);
    if (text.empty()) option->takes(cli::Option::Value::none);
    if (text.starts_with("[=")) option->takes(cli::Option::Value::behind_equals);
    if (row.needs != nullptr) option->needs({row.needs});
  }
}

const GivenOptions::Taken* GivenOptions::find(std::string_view word) const {
  auto found =
      std::find_if(taken_.begin(), taken_.end(), [&](const Taken& each) { return each.row->word() == word; });
  return found != taken_.end() ? &*found : nullptr;
}

std::string GivenOptions::text(std::string_view word) const {
  const Taken* taken = find(word);
  return taken != nullptr ? taken->text : "";
}

std::vector<GivenOption> GivenOptions::given() const {
  std::vector<GivenOption> out;
  for (const auto& [row, text] : taken_)
    out.push_back({row->word() + (text.empty() ? "" : "=" + text), row->name, value_of(*row, text)});
  return out;
}

void GivenOptions::set(job::Options& out) const {
  for (const auto& [row, text] : taken_) {
    if (row->way == Way::sent) out.set(row->name, "on");
    if (row->way == Way::text || row->way == Way::parsed) out.set(row->name, value_of(*row, text));
  }
}

std::vector<std::string> GivenOptions::shell_options() const {
  std::vector<std::string> out;
  for (const auto& [row, text] : taken_) {
    if (row->way == Way::carried) continue;
    const Json value = row->way == Way::sent ? Json("on") : value_of(*row, text);
    out.push_back(fmt::format("{}={}", row->name, value.is_string() ? value.get<std::string>() : dump_json(value)));
  }
  return out;
}

Result<std::vector<LaunchReport>> GivenOptions::reports() const {
  constexpr std::string_view kTimeline = "timeline";  // replaces its file
  std::vector<LaunchReport> out;
  for (const auto& [row, text] : taken_) {
    if ((row->way != Way::sent && row->way != Way::carried) || text.empty()) continue;
    if (row->name == kTimeline) CHECK_OK(in(row->word(), check_replaceable(text)));
    out.push_back({row->word(), row->name, text, row->value_of != report_place});
  }
  return out;
}

std::vector<std::string> GivenOptions::defaults(const job::Options& options) {
  std::vector<std::string> out;
  if (options.find("exit-timeout.after") == nullptr) out.emplace_back("exit-timeout.after=failure");
  // As torchrun, which starts all tasks again or ends the job.
  auto restart = job::RestartOption::read(options);
  if (options.is_switched_on("torch") && options.find("exit-on-error") == nullptr && restart && !restart->is_on())
    out.emplace_back("exit-on-error=1");
  return out;
}

Result<void> allow_rehearsal(const GivenOptions& given, bool by_srun) {
  if (!given.has("--rehearse") || given.has("--rehearse-force")) return {};
  auto allocation = TRY(boot::allocation_of(own_variable));
  std::string source = allocation ? allocation->source : "";
  if (boot::is_flux_allocation(own_variable)) source = "FLUX_URI";
  if (source.empty() && !by_srun) return {};
  return invalid(fmt::format(
      "--rehearse: {}, and a manager may take a node whose shell is killed out of use: leave the "
      "allocation, or add "
      "--rehearse-force",
      !source.empty() ? fmt::format("this is within an allocation ({})", source) : "srun starts the shells"));
}

// ---- show options -----------------------------------------------------------------------

void ShowOptions::add_to(cli::CommandLine& verb, const char* explained) {
  verb.add_flag("-q,--quiet", quiet_, "Print only warnings and errors beside the tasks' output")
      ->excludes({"--verbose"});
  verb.add_flag("--explain", explain_,
                "Print where tasks run, with env also their variables, with all the whole plan, and start none",
                explained)
      ->option_text("[=brief|env|all]")
      ->check(cli::one_of({"brief", "env", "all"}));
}

std::vector<std::string> ShowOptions::shell_words() const {
  std::vector<std::string> out;
  if (explains()) out.push_back(explain_ == "all" ? "--explain" : "--explain=" + explain_);
  if (quiet_) out.emplace_back("--quiet");
  return out;
}

}  // namespace nacre::front
