// SPDX-License-Identifier: Apache-2.0
#include "front/run_options.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "front/caller.hpp"
#include "front/launch_reports.hpp"
#include "front/place_options.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"

namespace nacre::front {
namespace {

constexpr cli::NumberRange kCounts{1, job::Jobspec::kMaxCount};

// "0-3:gdb -batch" or "time".
Result<Json> wrapper_of(const std::string& text) {
  std::string_view command = text;
  Json out = Json::object();
  if (std::size_t colon = text.find(':'); colon != std::string::npos) {
    std::string ranks = text.substr(0, colon);
    auto set = value::Idset::parse(ranks);
    if (ranks == "all" || (set && !set->empty())) {
      out["ranks"] = ranks;
      command.remove_prefix(colon + 1);
    }
  }
  auto words = TRY(words_of(command));
  if (words.empty()) return invalid("expected [RANKS:]COMMAND");
  out["command"] = words;
  return out;
}

}  // namespace

void RunOptions::add_to(cli::CommandLine& verb) {
  add_size(verb);
  add_environment(verb);
  add_streams(verb);
  add_rest(verb);
}

void RunOptions::add_size(cli::CommandLine& verb) {
  verb.begin_group("Tasks");
  verb.add_number("-n,--ntasks", tasks_, "Tasks (default: 1; with -N alone one a node)", kCounts)->option_text("N");
  verb.add_option("-N,--nodes", nodes_,
                  "Nodes (default: all of the hosts or the allocation, if there are tasks for them), and spares")
      ->option_text("N[+SPARES]")
      ->check(NodeCounts::parse);
  add_spares(verb, spares_);
  add_on_lost(verb, on_lost_);
  verb.add_number("--tasks-per-node,--ntasks-per-node", per_node_, "Tasks on each node", kCounts)->option_text("N");
  verb.add_number("-c,--cores-per-task,--cpus-per-task", cores_,
                  "Cores for each task (default: tasks share the cores of their node)", kCounts)
      ->option_text("N");
  verb.add_number("-g,--gpus-per-task", gpus_, "Gpus for each task", kCounts)->option_text("N");
  verb.add_flag("--oversubscribe", oversubscribe_, "Let tasks share cores where there are not enough");
  verb.add_option("--cpu-bind", cpu_bind_,
                  "Bind each task to its part of the node: whole threads, cores, caches, ...; or none")
      ->option_text("thread|core|l3|numa|package|none")
      ->check(cli::one_of({"thread", "core", "l3", "numa", "package", "none"}));
  verb.add_option("--mem-bind", mem_bind_, "Memory of the NUMA nodes where a task's cpus are")
      ->option_text("bind|prefer|interleave")
      ->check(cli::one_of({"bind", "prefer", "interleave"}));
  verb.add_option("--taskmap", taskmap_,
                  "Which task is on which node: block, cyclic[:N], manual:MAP, hostfile:FILE")
      ->option_text("SCHEME[:VALUE]");
  verb.add_option("--multi-prog", multi_prog_, "Run the programs that FILE has, in lines of RANKS PROGRAM [ARG...]")
      ->option_text("FILE");
  verb.add_option("-j,--file", file_, "Run the jobspec in FILE instead of a command; - is stdin")
      ->option_text("FILE");
}

void RunOptions::add_environment(cli::CommandLine& verb) {
  verb.begin_group("Environment", "that of this process, changed by these options in order");
  auto add = [this, &verb](const char* name, Rule::Kind kind, const char* help, const char* value) {
    auto keep = [this, kind](const std::string& text) {
      rules_.push_back({kind, text});
      return Result<void>();
    };
    verb.add_option(name, keep, help)->option_text(value)->repeatable();
  };
  add("--env", Rule::Kind::rule, "-PATTERN removes, PATTERN takes again, NAME=TEXT sets, ^FILE reads rules",
      "RULE");
  add("--env-remove", Rule::Kind::remove, "Remove the variables that match", "PATTERN");
  add("--env-file", Rule::Kind::file, "Read rules from FILE, one a line", "FILE");
  verb.add_option("--cwd,--chdir", cwd_, "The tasks' directory (default: this one)")->option_text("DIR");
}

void RunOptions::add_streams(cli::CommandLine& verb) {
  verb.begin_group("Input and output");
  verb.add_option("--output", output_, "Standard output to FILE, a template: out.{{task.rank}}")
      ->option_text("FILE");
  verb.add_option("--error", error_, "Standard error to FILE (default: as --output)")->option_text("FILE");
  verb.add_option("--input", input_, "Standard input from FILE")->option_text("FILE");
  verb.add_option("--input-ranks", input_ranks_, "Only these tasks get the input (default: all)")
      ->option_text("RANKS");
  verb.add_flag("-l,--label-io", label_, "Put the task's rank before each line");
  verb.add_flag("-u,--unbuffered", unbuffered_, "Write at once what tasks write, not by lines");
  verb.add_flag("--pty", pty_, "A terminal for task 0, joined to this one; or for RANKS, captured", kInteractive)
      ->option_text("[=RANKS]");
}

void RunOptions::add_rest(cli::CommandLine& verb) {
  verb.begin_group("");
  verb.add_option("-t,--time-limit", time_limit_, "End the job after so many minutes, or a time: 90s, 1.5h")
      ->option_text("TIME")
      ->check(time_limit_of);
  verb.add_option("--name", name_, "The job's name (default: the program's)")->option_text("NAME");
  verb.add_option("--wrap", wrap_, "Run tasks, or those of RANKS, under CMD; may be repeated")
      ->option_text("[RANKS:]CMD");
  verb.add_flag("--torch", torch_, "Set what torch.distributed needs, for a task each process");
  verb.add_option("--notify", notify_, "Write how tasks end, as lines of JSON, to FILE or descriptor FD")
      ->option_text("FILE|FD")
      ->check(check_report_place);
  verb.add_option("-o,--setopt", setopt_, "Set a shell option, see nacre-shell-options(7); may be repeated")
      ->option_text("OPT[=VAL]");
  verb.add_flag("-d,--detach", detach_, "Print the job's id once it runs, and leave it");
  verb.add_flag("--dry-run", dry_run_, "Print the jobspec, and start nothing");
}

// ---- the command -----------------------------------------------------------------

Result<void> RunOptions::take_words(std::vector<std::string> words) {
  if (!words.empty() && words[0] == "--") words.erase(words.begin());
  bool has_separator = std::find(words.begin(), words.end(), ":") != words.end();
  auto begin = words.begin();
  while (begin != words.end()) {
    auto end = std::find(begin, words.end(), ":");
    CHECK_OK(take_program(std::vector<std::string>(begin, end), !has_separator));
    if (end == words.end()) break;
    begin = end + 1;
    if (begin == words.end()) return invalid("expected a program behind the last ':'");
  }
  bool is_file = !file_.empty();
  bool has_command = !parts_.empty() || !multi_prog_.empty();
  if (is_file && (has_command || tasks_ || !nodes_.empty() || per_node_ || cores_ || gpus_))
    return invalid("--file has the command and the numbers of tasks and nodes: give it alone");
  if (!parts_.empty() && !multi_prog_.empty()) return invalid("--multi-prog has the programs: give no command");
  if (!is_file && !has_command) return invalid("expected a program to run: nacre run -n 4 hostname");
  if (auto with = spares_of_nodes(); with && spares_ && *with != *spares_)
    return invalid(contradiction("-N " + nodes_, fmt::format("--spares={}", *spares_)));
  if (cores_ && oversubscribe_ && *cores_ == 0) return invalid("-c: at least 1");
  return {};
}

// The first program's -n is among the options in front of it; the others' are behind their `:`.
Result<void> RunOptions::take_program(std::vector<std::string> words, bool is_only) {
  Part part;
  part.tasks = parts_.empty() ? tasks_.value_or(1) : 1;
  if (!parts_.empty()) {
    cli::CommandLine line("", "");
    line.prefix_command();
    line.add_number("-n,--ntasks", part.tasks, "", kCounts);
    if (!words.empty() && words[0].size() > 1 && words[0].starts_with('-') && words[0] != "--" &&
        !words[0].starts_with("-n") && !words[0].starts_with("--ntasks"))
      return invalid(fmt::format("behind ':': {} is not known there: only -n is", in_quotes(words[0])));
    CHECK_OK(in("behind ':'", line.read(std::move(words))));
    words = line.rest();
    if (!words.empty() && words[0] == "--") words.erase(words.begin());
  }
  if (words.empty() || words[0].empty())
    return invalid(is_only ? "expected a program's name, got an empty one"
                           : "expected a program on each side of ':'");
  part.command = std::move(words);
  parts_.push_back(std::move(part));
  return {};
}

Result<SizeRequest> RunOptions::sizes(std::uint32_t spares) const {
  SizeRequest out{tasks_, {}, per_node_, spares};
  if (!nodes_.empty()) out.nodes = TRY(in("-N", NodeCounts::parse(nodes_))).nodes;
  if (parts_.size() > 1) {
    std::uint64_t all = 0;
    for (const Part& each : parts_) all += each.tasks;
    if (all > job::Jobspec::kMaxCount)
      return invalid(fmt::format("{} tasks; at most {}", all, job::Jobspec::kMaxCount));
    out.tasks = static_cast<std::uint32_t>(all);
  }
  if (!tasks_ && !multi_prog_.empty()) {
    auto programs = TRY(this->programs());
    if (auto least = programs->least_tasks(); least && *least <= job::Jobspec::kMaxCount)
      out.tasks = static_cast<std::uint32_t>(*least);
  }
  return out;
}

std::optional<std::uint32_t> RunOptions::spares_of_nodes() const {
  auto counts = NodeCounts::parse(nodes_);
  return counts ? counts->spares : std::nullopt;
}

Result<std::optional<MultiProg>> RunOptions::programs() const {
  std::optional<MultiProg> out;
  if (!multi_prog_.empty()) {
    std::string text = TRY(in("--multi-prog", read_file(multi_prog_, MultiProg::kMaxText)));
    out = TRY(in(multi_prog_ == "-" ? "standard input" : multi_prog_, MultiProg::parse(text)));
  } else if (parts_.size() > 1) {
    out.emplace();
    std::uint32_t rank = 0;
    for (const Part& each : parts_) {
      out->programs.push_back({value::Idset::range(rank, rank + each.tasks - 1), each.command});
      rank += each.tasks;
    }
  }
  return out;
}

// ---- what the job is --------------------------------------------------------------

Result<void> RunOptions::set_rules(EnvironmentRules& rules) const {
  for (const Rule& each : rules_) {
    switch (each.kind) {
      case Rule::Kind::rule: CHECK_OK(in("--env", rules.apply(each.text))); break;
      case Rule::Kind::remove: CHECK_OK(in("--env-remove", rules.apply("-" + each.text))); break;
      case Rule::Kind::file: CHECK_OK(in("--env-file", rules.apply_file(each.text))); break;
    }
  }
  return {};
}

Result<Json> RunOptions::wrappers() const {
  Json out = Json::array();
  for (const std::string& each : wrap_) out.push_back(TRY(in("--wrap=" + each, wrapper_of(each))));
  return out;
}

std::string RunOptions::cpu_affinity() const {
  if (cpu_bind_.empty()) return "";
  return cpu_bind_ == "none" ? "off" : "per-task:" + cpu_bind_;
}

std::vector<GivenOption> RunOptions::given() const {
  std::vector<GivenOption> out;
  auto add = [&out](const char* option, const char* name, const std::string& text) {
    if (!text.empty()) out.push_back({fmt::format("{}={}", option, text), name, text});
  };
  auto add_switch = [&out](bool is_on, const char* option, const char* name) {
    if (is_on) out.push_back({option, name, true});
  };
  add("--output", "output.stdout.path", output_);
  add("--error", "output.stderr.path", error_);
  add("--input", "input.stdin.path", input_);
  add("--input-ranks", "input.ranks", input_ranks_);
  add("--taskmap", "taskmap", taskmap_);
  add("--notify", "exit-notify", notify_);
  if (auto with = spares_of_nodes()) out.push_back({"-N " + nodes_, "spares", *with});
  if (spares_) out.push_back({fmt::format("--spares={}", *spares_), "spares", *spares_});
  add("--on-lost", "on-lost", on_lost_);
  add("--mem-bind", "mem-affinity", mem_bind_);
  if (!cpu_bind_.empty()) out.push_back({"--cpu-bind=" + cpu_bind_, "cpu-affinity", cpu_affinity()});
  if (!lends_terminal()) add("--pty", "pty.ranks", pty_);
  add_switch(lends_terminal(), "--pty", "pty.interactive");
  add_switch(label_, "--label-io", "label-io");
  add_switch(torch_, "--torch", "torch");
  add_switch(oversubscribe_, "--oversubscribe", "oversubscribe");
  if (unbuffered_) out.push_back({"--unbuffered", "output.stdout.buffer.type", "none"});
  if (auto wrap = wrappers(); wrap && !wrap_.empty()) out.push_back({"--wrap", "wrap", *std::move(wrap)});
  if (auto limit = time_limit_of(time_limit_)) out.push_back({"--time-limit=" + time_limit_, "time-limit", *limit});
  if (!multi_prog_.empty()) out.push_back({"--multi-prog=" + multi_prog_, "multi-prog", Json()});
  if (parts_.size() > 1) out.push_back({"':'", "multi-prog", Json()});
  return out;
}

Result<void> RunOptions::set_options(job::Options& out) const {
  auto set_text = [&out](const char* name, const std::string& text) {
    if (!text.empty()) out.set(name, text);
  };
  set_text("output.stdout.path", output_);
  set_text("output.stderr.path", error_);
  // The options of stderr that are not set are copied from stdout: so stdout has to be set.
  if (!error_.empty() && !out.at("output.stdout")) out.set("output.stdout.type", "term");
  set_text("input.stdin.path", input_);
  set_text("input.ranks", input_ranks_);
  set_text("taskmap", taskmap_);
  set_text("cpu-affinity", cpu_affinity());
  set_text("mem-affinity", mem_bind_);
  set_text("on-lost", on_lost_);
  if (label_) out.set("label-io", true);
  if (unbuffered_) out.set("output.stdout.buffer.type", "none");
  if (pty_ == kInteractive)
    out.set("pty.interactive", true);
  else
    set_text("pty.ranks", pty_);
  if (!wrap_.empty()) out.set("wrap", TRY(wrappers()));
  if (torch_) out.set("torch", true);
  if (oversubscribe_) out.set("oversubscribe", true);
  if (auto spares = spares_ ? spares_ : spares_of_nodes()) out.set("spares", *spares);
  return {};
}

Result<Json> RunOptions::shell_options(const JobSize& size, const std::vector<std::string>& setopt) const {
  job::Options out;
  CHECK_OK(set_options(out));
  if (cores_ && cpu_bind_.empty()) out.set("cpu-affinity", "per-task");
  if (gpus_) out.set("gpu-affinity", "per-task");
  if (!oversubscribe_ && !cores_) out.set("oversubscribe", "share");
  if (auto programs = TRY(this->programs())) {
    CHECK_OK(in(multi_prog_.empty() ? "-n" : multi_prog_, programs->check(size.tasks)));
    out.set("multi-prog", programs->option());
  }
  for (const std::string& each : setopt) CHECK_OK(in("-o " + each, out.set_from_argument(each)));
  return out.json();
}

Result<std::string> RunOptions::directory() const {
  if (!is_utf8(cwd_)) return Error{EILSEQ, "--cwd: no UTF-8, which a jobspec has to be"};
  if (cwd_.starts_with('/')) return cwd_;
  std::string own = TRY(own_directory());
  return cwd_.empty() ? own : own + '/' + cwd_;
}

Result<void> RunOptions::change(Json& jobspec) const {
  Json& system = jobspec["attributes"]["system"];
  if (!time_limit_.empty()) system["duration"] = TRY(in("--time-limit", time_limit_of(time_limit_)));
  if (!name_.empty()) system["job"]["name"] = name_;
  if (!cwd_.empty()) system["cwd"] = TRY(directory());
  if (rules_.empty()) return {};
  const Json environment = system.value("environment", Json());
  EnvironmentRules rules = environment.is_object()
                               ? EnvironmentRules(own_environment(), environment.get<Variables>())
                               : EnvironmentRules(own_environment());
  CHECK_OK(set_rules(rules));
  Variables changed = rules.job();
  leave_out_no_utf8(changed);
  system["environment"] = std::move(changed);
  return {};
}

Result<JobRequest> RunOptions::request(const JobSize& size, const std::vector<std::string>& setopt) const {
  JobRequest out;
  out.size = size;
  out.cores_per_task = cores_.value_or(1);
  out.gpus_per_task = gpus_.value_or(0);
  if (!time_limit_.empty()) out.duration = TRY(in("--time-limit", time_limit_of(time_limit_)));
  out.name = name_;
  out.cwd = TRY(directory());
  EnvironmentRules rules(own_environment());
  CHECK_OK(set_rules(rules));
  out.environment = rules.job();
  leave_out_no_utf8(out.environment);
  out.options = TRY(shell_options(size, setopt));
  if (auto programs = TRY(this->programs()))
    out.command = programs->programs[0].command;
  else
    out.command = parts_[0].command;
  return out;
}

}  // namespace nacre::front
