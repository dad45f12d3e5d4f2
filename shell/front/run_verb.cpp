// SPDX-License-Identifier: Apache-2.0
//
// nacre run; see nacre-run(1).

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "cli/command_line.hpp"
#include "front/given_options.hpp"
#include "front/job_request.hpp"
#include "front/launch_run.hpp"
#include "front/mpir.hpp"
#include "front/place_options.hpp"
#include "front/verbs.hpp"
#include "io/format.hpp"
#include "job/job.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"
#include "launch/launcher.hpp"
#include "task/gpus.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::front {

// ---- run options ------------------------------------------------------------------------
//
// The options of `nacre run` that describe the job; see nacre-run(1). They are read as text, and become a
// JobRequest.

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

// How many tasks with `each` gpus a node has room for. The node is this one, or one as Slurm describes those of the
// allocation.
Result<std::uint32_t> gpus_of_a_node(std::uint32_t each) {
  auto told = own_variable("SLURM_GPUS_ON_NODE");
  std::uint64_t count = told ? parse_u64(*told).value_or(0) : task::find_gpus(own_variable).ids.size();
  if (count < each)
    return invalid(fmt::format("{} {}: give their number, as in --tasks-per-node=8 -g {}",
                               told ? "SLURM_GPUS_ON_NODE has" : "this host has",
                               count == 0 ? "no gpus" : fmt::format("{} gpus, a task {}", count, each), each));
  return static_cast<std::uint32_t>(count / each);
}

}  // namespace

class RunOptions {
 public:
  void add_to(cli::CommandLine& verb) {
    add_size(verb);
    add_environment(verb);
    add_streams(verb);
    add_rest(verb);
  }

  // Adds more options, behind those for where the job is.
  void add_words(cli::CommandLine& verb) {
    verb.begin_group("");
    words_.add_to(verb, "");
    verb.begin_group("Exit code", "see nacre-exits(7)");
    words_.add_to(verb, "Exit code");
    verb.begin_group("");
  }

  // Takes the words behind the options: COMMAND [ARG...], or several of these with a `:` between them, each with
  // its own -n. Behind a `--` they are those of one command, whatever they are. An error is a usage error.
  Result<void> take_words(std::vector<std::string> words) {
    const bool is_one = !words.empty() && words[0] == "--";
    if (is_one) words.erase(words.begin());
    CHECK_OK(take_elements(words, is_one));
    const auto next_separator = [&](auto from) { return is_one ? words.end() : std::find(from, words.end(), ":"); };
    bool has_separator = next_separator(words.begin()) != words.end();
    auto begin = words.begin();
    while (begin != words.end()) {
      auto end = next_separator(begin);
      CHECK_OK(take_program(std::vector<std::string>(begin, end), !has_separator));
      if (end == words.end()) break;
      begin = end + 1;
      if (begin == words.end()) return invalid("expected a program behind the last ':'");
    }
    bool is_file = !file_.empty();
    bool has_command = !parts_.empty() || !multi_prog_.empty();
    if (is_file && (has_command || tasks_ || task_range_ || !nodes_.empty() || per_node_ || cores_ || gpus_))
      return invalid("--file has the command and the numbers of tasks and nodes: give it alone");
    if (!parts_.empty() && !multi_prog_.empty()) return invalid("--multi-prog has the programs: give no command");
    if (!is_file && !has_command) return invalid("expected a program to run: nacre run -n 4 hostname");
    return {};
  }

  // `spares`: as the shell's options say.
  [[nodiscard]] Result<SizeRequest> sizes(std::uint32_t spares) const {
    SizeRequest out{tasks_, {}, per_node_, spares, goes_round_, {}};
    if (per_gpu_) out.tasks_per_node = TRY(in("--tasks-per-node=gpu", gpus_of_a_node(gpus_.value_or(1))));
    if (auto counts = TRY(nodes(out.tasks_per_node))) {
      out.nodes = counts->nodes;
      out.least_nodes = counts->least;
    }
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

  // The request that the options describe; the files that they name are read now. `setopt`: more options of the
  // shell, such as those of -o; they replace those that other options stand for.
  [[nodiscard]] Result<JobRequest> request(const JobSize& size, const std::vector<std::string>& setopt) const {
    JobRequest out;
    out.size = size;
    out.cores_per_task = cores_.value_or(1);
    out.gpus_per_task = gpus_.value_or(per_gpu_ ? 1 : 0);
    if (!time_limit_.empty()) out.duration = TRY(in("--time-limit", time_limit_of(time_limit_)));
    out.name = name_;
    out.cwd = TRY(directory());
    EnvironmentRules rules(own_environment());
    CHECK_OK(set_rules(rules));
    out.environment = rules.job();
    leave_out_no_utf8(out.environment);
    out.options = TRY(shell_options(size, setopt));
    auto at_most = TRY(job::AtMost::read(job::Options(out.options)));
    if (at_most.of_cores && (cores_ || gpus_ || per_gpu_))
      return invalid("-c and -g need a number of tasks that run at the same time on each host: --at-most=N");
    if (at_most.is_on()) out.at_most = at_most.tasks.value_or(1);
    if (auto programs = TRY(this->programs()))
      out.command = programs->programs[0].command;
    else
      out.command = parts_[0].command;
    return out;
  }

  // --container, with the variables that --env=NAME=TEXT has set, even if the image has them.
  [[nodiscard]] std::string container() const {
    constexpr std::string_view kOfNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    std::string out = words_.text("--container");
    for (const Rule& each : rules_) {
      const std::string name = each.text.substr(0, each.text.find('='));
      const bool sets = each.kind == Rule::Kind::rule && name.size() < each.text.size() && !name.empty() &&
                        name.find_first_not_of(kOfNames) == std::string::npos;
      if (sets) out += ",env=" + name;
    }
    return out;
  }

  Result<void> set_options(job::Options& out) const {
    words_.set(out);
    for (const GivenOption& each : file_options()) out.set(each.name, each.value);
    if (words_.has("--container")) out.set("container", container());
    // The options of stderr that are not set are copied from stdout: so stdout has to be set.
    if (words_.has("--error") && !out.at("output.stdout")) out.set("output.stdout.type", "term");
    if (lends_terminal())
      out.set("pty.interactive", true);
    else if (!pty_.empty())
      out.set("pty.ranks", pty_);
    if (!wrap_.empty()) out.set("wrap", TRY(wrappers()));
    if (auto spares = spares_of_nodes()) out.set("spares", *spares);
    if (!range().empty()) {
      out.set("resize", true);
      if (!words_.has("--on-lost")) out.set("on-lost", "replace");
    }
    return {};
  }

  // For a jobspec from a file: the members of attributes.system that are given here replace those that it has. The
  // rules of --env change its environment, or the caller's if it has none.
  Result<void> change(Json& jobspec) const {
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

  [[nodiscard]] const std::vector<std::string>& setopt() const { return setopt_; }
  [[nodiscard]] bool sizes_slots() const { return cores_ || gpus_ || per_gpu_; }  // -c or -g is given
  [[nodiscard]] bool fills_slots() const { return by_slots_; }
  [[nodiscard]] const std::string& file() const { return file_; }  // a jobspec instead; empty: none
  [[nodiscard]] const GivenOptions& words() const { return words_; }

  // Options that -o may set as well.
  [[nodiscard]] std::vector<GivenOption> given() const {
    std::vector<GivenOption> out;
    if (auto with = spares_of_nodes()) out.push_back({"-N " + nodes_, "spares", *with});
    if (const std::string range = this->range(); !range.empty()) {
      out.push_back({range, "resize", true});
      if (!words_.has("--on-lost")) out.push_back({range, "on-lost", "replace"});
    }
    for (GivenOption& each : words_.given()) out.push_back(std::move(each));
    for (GivenOption& each : file_options()) out.push_back(std::move(each));
    if (lends_terminal())
      out.push_back({"--pty", "pty.interactive", true});
    else if (!pty_.empty())
      out.push_back({"--pty=" + pty_, "pty.ranks", pty_});
    if (auto wrap = wrappers(); wrap && !wrap_.empty()) out.push_back({"--wrap", "wrap", *std::move(wrap)});
    if (auto limit = time_limit_of(time_limit_))
      out.push_back({"--time-limit=" + time_limit_, "time-limit", *limit});
    if (!multi_prog_.empty()) out.push_back({"--multi-prog=" + multi_prog_, "multi-prog", Json()});
    if (parts_.size() > 1) out.push_back({"':'", "multi-prog", Json()});
    return out;
  }

  [[nodiscard]] bool resumes() const { return resume_ || resume_failed_; }
  [[nodiscard]] bool reads_input() const { return file_ == "-" || list_file_ == "-"; }
  [[nodiscard]] bool lends_terminal() const { return pty_ == kInteractive; }
  [[nodiscard]] bool prints_jobspec() const { return dry_run_; }
  [[nodiscard]] bool detaches() const { return detach_; }
  // --tee is given, and nothing goes to files.
  [[nodiscard]] bool lacks_files() const {
    return tee_ && log_directory_.empty() && !words_.has("--output") && !words_.has("--error");
  }

 private:
  static constexpr const char* kInteractive = "interactive";

  void add_size(cli::CommandLine& verb) {
    verb.begin_group("Tasks");
    auto tasks = [this](const std::string& text) { return take_tasks(text); };
    verb.add_option("-n,--ntasks", tasks,
                    "Tasks (default: 1; with -N alone one a node); a range with --tasks-per-node, as -N has one")
        ->option_text("N|MIN:MAX");
    verb.add_option(
            "-N,--nodes", nodes_,
            "Nodes (default: all of the hosts or the allocation, if there are tasks for them), and spares; or a "
            "range, as the job may lose and get some")
        ->option_text("N[+SPARES]|MIN:MAX")
        ->check(NodeCounts::parse);
    auto per_node = [this](const std::string& text) { return take_tasks_per_node(text); };
    verb.add_option(
            "--tasks-per-node,--ntasks-per-node", per_node,
            "Tasks on each node; gpu: one for each gpu; slots: as many as it has slots, one node after the other")
        ->option_text("N|gpu|slots");
    verb.add_number("-c,--cores-per-task,--cpus-per-task", cores_,
                    "Cores for each task (default: tasks share the cores of their node)", kCounts)
        ->option_text("N");
    verb.add_number("-g,--gpus-per-task", gpus_, "Gpus for each task", kCounts)->option_text("N");
    words_.add_to(verb, "Tasks");
    verb.add_option("-a,--arg-file", list_file_,
                    "A task for each line of FILE, for {} in the command; as behind ::: A B ...; - is stdin")
        ->option_text("FILE");
    verb.add_option("--multi-prog", multi_prog_,
                    "Run the programs that FILE has, in lines of RANKS PROGRAM [ARG...]")
        ->option_text("FILE");
    verb.add_option("-j,--file", file_, "Run the jobspec in FILE instead of a command; - is stdin")
        ->option_text("FILE");
  }

  Result<void> take_tasks(const std::string& text) {
    const std::size_t colon = text.find(':');
    const std::uint64_t most =
        parse_u64(std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1)).value_or(0);
    const std::uint64_t least = colon == std::string::npos ? most : parse_u64(text.substr(0, colon)).value_or(0);
    const bool is_wrong = least < 1 || most > job::Jobspec::kMaxCount;
    if (is_wrong && colon == std::string::npos) return kCounts.expected(text);
    if (is_wrong || least > most)
      return invalid(fmt::format("expected a number of tasks, or MIN:MAX as in 4:16, got {}", in_quotes(text)));
    if (least == most)
      tasks_ = static_cast<std::uint32_t>(most);
    else
      task_range_ = {static_cast<std::uint32_t>(least), static_cast<std::uint32_t>(most)};
    return {};
  }

  // The numbers of nodes that are asked for, by -N, or by -n with as many tasks on each node; none: no number is.
  [[nodiscard]] Result<std::optional<NodeCounts>> nodes(const std::optional<std::uint32_t>& each) const {
    if (!task_range_)
      return nodes_.empty() ? std::nullopt : std::optional(TRY(in("-N", NodeCounts::parse(nodes_))));
    const auto [least, most] = *task_range_;
    const std::string range = fmt::format("-n {}:{}", least, most);
    if (!nodes_.empty() || !each || goes_round_)
      return invalid(fmt::format("{}: give --tasks-per-node={}, too: each node has as many tasks as the others",
                                 range, nodes_.empty() ? "N" : "N in place of -N"));
    NodeCounts out{most / *each, (least + *each - 1) / *each, {}};
    if (out.nodes < *out.least)
      return invalid(fmt::format("{}, but --tasks-per-node={}: no number of nodes has as many", range, *each));
    if (out.nodes == *out.least) out.least.reset();
    return std::optional(out);
  }

  [[nodiscard]] Result<void> take_tasks_per_node(const std::string& text) {
    constexpr std::string_view kRound = ":round";
    goes_round_ = text.ends_with(kRound);
    auto number = parse_u64(text.substr(0, text.size() - (goes_round_ ? kRound.size() : 0)));
    per_gpu_ = text == "gpu";
    by_slots_ = text == "slots";
    if (by_slots_) return {};
    if (!per_gpu_ && (!number || *number < 1 || *number > job::Jobspec::kMaxCount))
      return invalid(fmt::format("expected a number from 1 to {}, gpu or slots, got {}", job::Jobspec::kMaxCount,
                                 in_quotes(text)));
    per_node_ = static_cast<std::uint32_t>(number.value_or(1));
    return {};
  }

  void add_environment(cli::CommandLine& verb) {
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

  void add_streams(cli::CommandLine& verb) {
    verb.begin_group("Input and output");
    words_.add_to(verb, "Input and output");
    verb.add_option("--log-dir", log_directory_,
                    "Both streams to DIR/JOBID/attempt_N/RANK/stdout.log and stderr.log")
        ->option_text("DIR");
    verb.add_flag("--tee", tee_, "Print what goes to files of --output, --error and --log-dir as well");
    verb.add_flag("--pty", pty_, "A terminal for task 0, joined to this one; or for RANKS, captured", kInteractive)
        ->option_text("[=RANKS]");
  }

  void add_rest(cli::CommandLine& verb) {
    verb.begin_group("");
    verb.add_option("-t,--time-limit", time_limit_, "End the job after so many minutes, or a time: 90s, 1.5h")
        ->option_text("TIME")
        ->check(time_limit_of);
    verb.add_option("--name", name_, "The job's name (default: the program's)")->option_text("NAME");
    verb.add_option("--wrap", wrap_, "Run tasks, or those of RANKS, under CMD; may be repeated")
        ->option_text("[RANKS:]CMD");
    verb.add_option("-o,--setopt", setopt_, "Set a shell option, see nacre-shell-options(7); may be repeated")
        ->option_text("OPT[=VAL]");
    verb.add_flag("--resume", resume_, "Run only the tasks that the file of --joblog does not have")
        ->needs({"--joblog"});
    verb.add_flag("--resume-failed", resume_failed_, "The same, and those that have failed by that file")
        ->needs({"--joblog"});
    verb.add_flag("-d,--detach", detach_, "Print the job's id once it runs, and leave it");
    verb.add_flag("--dry-run", dry_run_, "Print the jobspec, and start nothing");
  }

  // ---- the command ---------------------------------------------------------------------

  // Takes what is behind `:::`, or the lines of a file; then there are as many tasks.
  Result<void> take_elements(std::vector<std::string>& words, bool is_one) {
    auto list = is_one ? std::optional<std::vector<std::string>>() : TRY(take_list(words));
    if (list && !list_file_.empty()) return invalid("--arg-file has the list: give none behind :::");
    if (!list && list_file_.empty()) return {};
    const bool has_several = !is_one && std::find(words.begin(), words.end(), ":") != words.end();
    if (!file_.empty() || !multi_prog_.empty() || has_several)
      return invalid("a list is for one command: not with --file, --multi-prog or several programs");
    if (words.empty()) return invalid("expected a program to run: nacre run echo {} ::: a b c");
    list_ = list ? *std::move(list) : TRY(in("--arg-file", read_list(list_file_)));
    if (tasks_ && *tasks_ != list_.size())
      return invalid(fmt::format("-n {}, but the list has {} element{}, a task for each: leave out -n", *tasks_,
                                 list_.size(), list_.size() == 1 ? "" : "s"));
    if (list_.size() > job::Jobspec::kMaxCount)
      return invalid(fmt::format("the list has {} elements; at most {}", list_.size(), job::Jobspec::kMaxCount));
    tasks_ = static_cast<std::uint32_t>(list_.size());
    put_elements(words);
    return {};
  }

  // The first program's -n is among the options in front of it; the others' are behind their `:`.
  Result<void> take_program(std::vector<std::string> words, bool is_only) {
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

  // "-N 2:4", "-n 4:16"; "": the job has one size
  [[nodiscard]] std::string range() const {
    std::optional<std::uint32_t> each = per_node_;
    if (auto of_gpus = per_gpu_ ? gpus_of_a_node(gpus_.value_or(1)) : Result<std::uint32_t>(1); per_gpu_ && of_gpus)
      each = *of_gpus;
    auto counts = nodes(each);
    if (!counts || !*counts || !(*counts)->least) return "";
    return task_range_ ? fmt::format("-n {}:{}", task_range_->first, task_range_->second) : "-N " + nodes_;
  }

  // those that -N has
  [[nodiscard]] std::optional<std::uint32_t> spares_of_nodes() const {
    auto counts = NodeCounts::parse(nodes_);
    return counts ? counts->spares : std::nullopt;
  }

  [[nodiscard]] Result<std::optional<MultiProg>> programs() const {
    std::optional<MultiProg> out;
    if (!multi_prog_.empty()) {
      if (!multi_prog_text_)
        multi_prog_text_ = TRY(in("--multi-prog", read_file(multi_prog_, MultiProg::kMaxText)));
      out = TRY(in(multi_prog_ == "-" ? "standard input" : multi_prog_, MultiProg::parse(*multi_prog_text_)));
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

  // ---- what the job is -----------------------------------------------------------------

  [[nodiscard]] Result<void> set_rules(EnvironmentRules& rules) const {
    for (const Rule& each : rules_) {
      switch (each.kind) {
        case Rule::Kind::rule: CHECK_OK(in("--env", rules.apply(each.text))); break;
        case Rule::Kind::remove: CHECK_OK(in("--env-remove", rules.apply("-" + each.text))); break;
        case Rule::Kind::file: CHECK_OK(in("--env-file", rules.apply_file(each.text))); break;
      }
    }
    return {};
  }

  [[nodiscard]] Result<Json> wrappers() const {
    Json out = Json::array();
    for (const std::string& each : wrap_) out.push_back(TRY(in("--wrap=" + each, wrapper_of(each))));
    return out;
  }

  // --log-dir and --tee, as options of the shell.
  [[nodiscard]] std::vector<GivenOption> file_options() const {
    std::vector<GivenOption> out;
    const bool has_directory = !log_directory_.empty();
    if (has_directory) {
      const std::string word = "--log-dir=" + log_directory_;
      for (const char* stream : {"stdout", "stderr"})
        out.push_back({word, fmt::format("output.{}.path", stream),
                       fmt::format("{}/{{{{id}}}}/attempt_{{{{task.attempt}}}}/{{{{task.rank}}}}/{}.log",
                                   log_directory_, stream)});
      out.push_back({word, "output.mkdir", true});
    }
    if (!tee_) return out;
    if (has_directory || words_.has("--output")) out.push_back({"--tee", "output.stdout.type", "file,term"});
    if (has_directory || words_.has("--error")) out.push_back({"--tee", "output.stderr.type", "file,term"});
    return out;
  }

  [[nodiscard]] Result<Json> shell_options(const JobSize& size, const std::vector<std::string>& setopt) const {
    job::Options out;
    CHECK_OK(set_options(out));
    if (cores_ && !words_.has("--cpu-bind")) out.set("cpu-affinity", "per-task");
    if (gpus_ || per_gpu_) out.set("gpu-affinity", "prefer-closest");
    if (!words_.has("--oversubscribe") && !cores_) out.set("oversubscribe", "share");
    if (!list_.empty()) {
      out.set("arguments", list_);
      if (!words_.has("--at-most")) out.set("at-most", "cores");
    }
    if (auto programs = TRY(this->programs())) {
      CHECK_OK(in(multi_prog_.empty() ? "-n" : multi_prog_, programs->check(size.tasks)));
      out.set("multi-prog", programs->option());
    }
    if (resumes()) CHECK_OK(leave_out_ended(size, out));
    for (const std::string& each : setopt) CHECK_OK(in("-o " + each, out.set_from_argument(each)));
    return out.json();
  }

  // The former output of these tasks stays as well.
  Result<void> leave_out_ended(const JobSize& size, job::Options& out) const {
    const std::string path = words_.text("--joblog");
    std::error_code failed;
    if (!std::filesystem::exists(path, failed)) return {};
    std::string text = TRY(in("--joblog", read_file(path)));
    if (text.empty()) return {};
    const bool is_as_given = parts_.size() == 1 && wrap_.empty() && !words_.has("--container");
    static const std::vector<std::string> kUnknown;
    JoblogRequest request{is_as_given ? parts_[0].command : kUnknown, list_, size.tasks, resume_failed_};
    out.set("ended-before", TRY(in("--joblog: " + path, ended_before(text, request))));
    if (words_.has("--output") || words_.has("--error") || !log_directory_.empty())
      out.set("output.mode", "append");
    return {};
  }

  [[nodiscard]] Result<std::string> directory() const {
    if (!io::is_utf8(cwd_)) return Error{EILSEQ, "--cwd: no UTF-8, which a jobspec has to be"};
    if (cwd_.starts_with('/')) return cwd_;
    std::string own = TRY(own_directory());
    return cwd_.empty() ? own : own + '/' + cwd_;
  }

  std::optional<std::uint32_t> tasks_, per_node_, cores_, gpus_;
  bool per_gpu_ = false;  // as many tasks on each node as it has gpus
  bool goes_round_ = false;
  bool by_slots_ = false;                                              // hosts are filled one after the other
  std::optional<std::pair<std::uint32_t, std::uint32_t>> task_range_;  // the least and the most
  std::string nodes_;                                                  // "4", "4+1", "2:8"
  GivenOptions words_{GivenOptions::Verb::run};
  std::string time_limit_, name_, cwd_;
  struct Rule {
    enum class Kind { rule, remove, file } kind;
    std::string text;
  };
  std::vector<Rule> rules_;  // in the order in which they were given
  std::string multi_prog_, pty_, file_;
  mutable std::optional<std::string> multi_prog_text_;  // read once, as standard input is empty then
  std::string log_directory_;
  bool tee_ = false;
  std::vector<std::string> wrap_, setopt_;
  bool resume_ = false, resume_failed_ = false;
  std::string list_file_;
  std::vector<std::string> list_;  // an element for each task; empty: there is no list
  bool dry_run_ = false, detach_ = false;
  struct Part {
    std::vector<std::string> command;
    std::uint32_t tasks = 1;
  };
  std::vector<Part> parts_;
};

// ---- run here ---------------------------------------------------------------------------
//
// The simplest job: one shell, on this host. This process becomes that shell, so the shell has its terminal, its
// signals and its standard streams, and needs neither network nor secret. It executes another program only for a
// shell that the user has chosen, and in a pod, where it becomes one of several shells.

// Whether the plan is of one shell on this host, or this is one of several pods.
bool is_here(const LaunchPlan& plan) {
  return plan.in_pod ||
         (!plan.srun && plan.record.size == 1 && (plan.record.agent.empty() || launch::is_this_host(plan.leader)));
}

namespace {

BecomeShell own_shell;

Result<int> execute_shell(const LaunchPlan& plan) {
  const launch::LaunchRecord& record = plan.record;
  UniqueFd fd(::memfd_create("nacre-launch-record", 0));
  if (!fd) return system_error(errno, "memfd_create");
  if (int code = write_all(fd.get(), record.line()); code != 0) return system_error(code, "the launch record");
  std::vector<std::string> words = record.shell;
  words.push_back(fmt::format("--launch-record={}", fd.get()));
  if (plan.in_pod) words.emplace_back("--boot=index");
  if (plan.verbose) print_err("{}: starting {}\n", record.front, fmt::join(words, " "));
  std::vector<char*> argv;
  for (std::string& each : words) argv.push_back(each.data());
  argv.push_back(nullptr);
  CHECK_OK(flush_out());
  ::execvp(argv[0], argv.data());
  return system_error(errno, words[0]);
}

}  // namespace

void set_own_shell(BecomeShell become) { own_shell = std::move(become); }

// Returns only if it fails, with the error.
Result<int> run_here(LaunchPlan plan) {
  launch::LaunchRecord& record = plan.record;
  for (const LaunchReport& each : plan.reports) {
    std::string to = each.is_path ? std::filesystem::absolute(each.to).native() : each.to;
    record.options.push_back(fmt::format("{}={}", each.channel, to));
  }
  if (!own_shell || !plan.has_own_shell || plan.in_pod) return execute_shell(plan);
  if (plan.verbose) print_err("{}: starting {}\n", record.front, fmt::join(record.shell, " "));
  own_shell(record.shell, record);
  return 1;
}

// ---- foreign options --------------------------------------------------------------------

namespace {

// nacre-run(1) has the same table.
constexpr std::array<cli::ForeignOption, 48> kForeignOptions{{
    // How many, and where.
    {"-np --np", "--ntasks=%", "", ""},
    {"-ppn --ppn -npernode --npernode -perhost --perhost", "--tasks-per-node=%", "", ""},
    {"-H --host -host -hosts -w --nodelist", "--hosts=%", "", ""},
    {"-f -machinefile --machinefile -hostfile", "--hostfile=%", "", ""},
    {"-O --overcommit", "--oversubscribe", "", ""},
    {"-m --distribution", "--taskmap=%", "block cyclic", "--taskmap says which task is on which node"},
    {"--map-by -map-by --rank-by -rank-by", "", "",
     "--taskmap says which task is on which node, --tasks-per-node how many are, --cpu-bind what each is bound to"},
    {"--bind-to -bind-to", "--cpu-bind=%", "core numa none",
     "--cpu-bind=thread|core|l3|numa|package|none binds each task to its part of the node"},
    {"-G --gpus --gpus-per-node --gres", "", "", "-g N gives each task N gpus"},
    {"-W --wait", "", "", "-o exit-timeout=TIME says how long the others may run once a task has ended"},
    // Environment and directory.
    {"-x", "--env=%", "", ""},
    {"-env -genv -genvlist", "", "", "--env=NAME=VALUE sets a variable of the tasks"},
    {"--export", "%", "ALL", "tasks get this environment; --env='-*' removes it, --env=NAME=VALUE sets a variable"},
    {"-D -wdir --wdir -wd", "--chdir=%", "", ""},
    {"--mca -mca --pmixmca --prtemca", "", "", "--env=OMPI_MCA_NAME=VALUE sets a parameter of Open MPI"},
    {"--mpi", "--setopt=pmi=%", "pmix pmi2", "-o pmi=simple,pmi2,pmix or off says what tasks are offered"},
    // Output.
    {"--label --tag-output -tag-output -prepend-rank --prepend-rank", "--label-io", "", ""},
    {"-e", "--error=%", "", ""},
    {"-i", "--input=%", "", ""},
    {"-outfile-pattern -errfile-pattern --output-filename", "", "",
     "--output='out.{{task.rank}}' writes a file for each task, and so does --error"},
    {"--report-bindings -report-bindings", "--setopt=cpu-affinity.verbose=true", "", ""},
    // How it runs and ends.
    {"--time", "--time-limit=%", "", ""},
    {"-J --job-name", "--name=%", "", ""},
    {"--kill-on-bad-exit", "--fail-fast", "1", "--fail-fast ends the job when a task fails"},
    {"--no-kill", "--on-lost=go-on", "", ""},
    {"--exact --allow-run-as-root", "", "", ""},
    {"-p --partition -A --account --qos --reservation --exclusive --overlap --constraint -C --mem", "", "",
     "it is an option of srun, to which --srun-arg gives it: --srun-arg=--partition=NAME"},
    {"-launcher -bootstrap -rmk -launcher-exec", "", "",
     "hosts are reached by srun in an allocation of Slurm, else by ssh, or what --agent names"},
    {"--task-prolog --task-epilog --prolog --epilog", "", "",
     "-o prolog=CMD, epilog, task-prolog and task-epilog run programs before and after the tasks"},
    {"--container-image --container-mounts --container-env --container-workdir --container-name "
     "--container-writable "
     "--container-mount-home --no-container-mount-home --container-remap-root --no-container-remap-root "
     "--container-entrypoint --no-container-entrypoint",
     "", "",
     "--container=IMAGE,bind=SOURCE:TARGET,env=NAME runs the tasks in a container; --chdir is their directory"},
    {"--signal", "", "", "-o signal=NUMBER and -o signal.timeleft=TIME warn tasks of a limit"},
    {"--setattr --requires --queue --dependency", "", "", "it is for a queue, and nacre starts the job at once"},
    // torchrun.
    {"--nproc-per-node --nproc_per_node", "", "",
     "--torch and --tasks-per-node=N, or gpu, start N processes on each node"},
    {"--log_dir", "--log-dir=%", "", ""},
    {"-r --redirects", "", "",
     "--log-dir=DIR writes both streams of each task to files; with --tee they are printed too"},
    {"--no-python --no_python --module", "", "", "nacre runs any program: python3 script.py, or python3 -m module"},
    {"--nnodes", "", "", "-N says how many nodes, and --torch sets what torch.distributed needs"},
    {"--node-rank --node_rank --master-addr --master_addr --master-port --master_port --rdzv-backend "
     "--rdzv_backend "
     "--rdzv-endpoint --rdzv_endpoint --rdzv-id --rdzv_id --standalone",
     "", "", "--torch sets what torch.distributed needs, on all nodes"},
    {"--max-restarts --max_restarts", "--restart=on-failure,max=%", "", ""},
    // GNU parallel, clush.
    {"--results", "--log-dir=%", "", ""},
    {"--halt --halt-on-error", "", "",
     "--fail-fast ends the job when a task fails; --fail-fast=N or P% after more"},
    {"--retries", "--restart=on-failure,per-task=%", "", ""},
    {"--tag", "--label-io", "", ""},
    {"--tagstring", "--setopt=output.stdout.label=%", "", ""},
    {"--lb --line-buffer --linebuffer --group -k --keep-order", "", "",
     "lines of several tasks come out whole, in the order in which they were written; --log-dir=DIR keeps each "
     "task's"},
    {"-b --dshbak -L", "--fold=hosts", "", ""},
    {"--jobs -P --max-procs", "--at-most=%", "", ""},
    {"--bar --eta --progress", "", "", "nacre top shows how far the tasks are"},
}};

}  // namespace

// The options of srun, mpiexec, mpirun, flux run and torchrun that `nacre run` takes, or for which it names another
// option; see nacre-run(1).
std::span<const cli::ForeignOption> foreign_options() { return kForeignOptions; }

// ---- run verb ---------------------------------------------------------------------------

namespace {

class Run final : public cli::Verb {
 public:
  void add_to(cli::CommandLine& verb) override {
    verb_ = &verb;
    verb_->prefix_command("COMMAND [ARG...]");
    verb_->order_groups({"Tasks", "Hosts", "Input and output", "Exit code", "Environment"});
    verb_->add_example("nacre run -n 4 hostname", "four tasks, on this host or in the allocation");
    verb_->add_example("nacre run --hosts='n[0-3]' --tasks-per-node=8 -l ./app",
                       "on four hosts by ssh, lines with their rank");
    verb_->add_example("nacre run -n 8 -c 4 --output='out.{{task.rank}}' ./app",
                       "four cores each, a file for each task");
    verb_->add_example("nacre run --at-most=8 gzip {} ::: *.log", "a task for each file, eight at a time");
    verb_->take_foreign(foreign_options());
    options_.add_to(*verb_);
    places_.add_to(*verb_, "by default those of the allocation that this is run in, else this host");
    places_.add_pretend(*verb_);
    options_.add_words(*verb_);
    show_.add_to(*verb_, "brief");
  }

  Result<void> check_usage() override {
    CHECK_OK(places_.check());
    CHECK_OK(options_.take_words(verb_->rest()));
    return check_show();
  }

  Result<int> run() override {
    // A shell without job control ignores SIGINT and SIGQUIT for what it starts in the background; this process
    // handles them.
    for (int signum : {SIGINT, SIGQUIT}) std::signal(signum, SIG_DFL);
    Places places = TRY(find_places());
    CHECK_OK(allow_rehearsal(options_.words(), places.by_srun));
    if (places.pod) CHECK_OK(check_in_pod());
    const bool has_job =
        !places.pod || places.pod->index == 0 || options_.file() != "-";  // only pod 0 has its input
    JobPlan job;
    if (has_job) job = TRY(options_.file().empty() ? job_of_command(places) : job_of_file(places));
    if (options_.prints_jobspec()) {
      print_out("{}\n", job.jobspec);
      return 0;
    }
    if (places.pretended && !show_.is_quiet() && !show_.explains())
      print_err("{}: made-up nodes on this host: {} of {}, each of {}; tasks are not bound\n", verb_->program(),
                job.shells, places.pretended->nodes, places.pretended->node_words());
    LaunchPlan plan = TRY(plan_of(std::move(places), std::move(job)));
    // Then the launcher has to be another process than the shell, one that can go.
    bool parts = options_.detaches() || plan.outlived;
    bool may_part = plan.record.detaching == launch::Detaching::on_request && ::isatty(STDIN_FILENO) == 1;
    if (parts && options_.lends_terminal())
      return invalid("--pty: a job that goes on without this process cannot have its terminal; --pty=RANKS can be");
    // A debugger finds the tasks in this process.
    if (is_here(plan) && !parts && !may_part && !debugger_asks()) return run_here(std::move(plan));
    if (options_.lends_terminal() && ::isatty(STDIN_FILENO) == 1)
      return invalid(
          "--pty: a task can have this terminal only where the job is one shell on this host; "
          "with --pty=RANKS tasks have terminals whose output comes out here");
    return launch(std::move(plan));
  }

 private:
  struct JobPlan {
    std::string jobspec;  // text
    job::Options options;
    std::uint32_t shells = 1;
    std::map<std::string, std::string> sources = {};  // of options, who has set them
  };

  // Options that -o may set as well.
  [[nodiscard]] std::vector<GivenOption> given() const {
    std::vector<GivenOption> out = options_.given();
    if (!places_.pretend().empty()) out.push_back({"--pretend=" + places_.pretend(), "pretend", places_.pretend()});
    if (!places_.initrc().empty()) out.push_back({"--initrc=" + places_.initrc(), "initrc", places_.initrc()});
    return out;
  }

  [[nodiscard]] Result<void> check_show() const {
    CHECK_OK(refuse_contradictions(given(), options_.setopt()));
    if (options_.lacks_files())
      return invalid("--tee prints what goes to files: give --output, --error or --log-dir with it");
    if (options_.detaches() && show_.explains())
      return invalid("--detach and --explain exclude each other: no job runs");
    if (options_.words().text("--format") != "json") return {};
    if (options_.words().has("--label-io"))
      return invalid("--format=json has the rank of each line: leave out --label-io");
    if (options_.lends_terminal())
      return invalid("--format=json and --pty exclude each other: --pty=RANKS captures what tasks write");
    if (show_.explains()) return invalid("--format=json and --explain exclude each other: the plan is text");
    return {};
  }

  // A pod ends with its first process, and its terminal is its own.
  [[nodiscard]] Result<void> check_in_pod() const {
    if (options_.detaches())
      return invalid(
          "--detach: a pod ends with its first process, and with it its share of the job; a Job of "
          "Kubernetes runs in the background anyway");
    if (options_.lends_terminal())
      return invalid(
          "--pty: a job of several pods has no terminal of its own; --pty=RANKS gives tasks some whose "
          "output comes out at pod 0");
    return {};
  }

  [[nodiscard]] std::vector<std::string> setopt() const {
    std::vector<std::string> out = options_.setopt();
    if (!places_.pretend().empty()) out.push_back("pretend=" + places_.pretend());
    return out;
  }

  [[nodiscard]] Result<Places> find_places() const {
    auto found = TRY(places_.find(true, true));
    if (found) return *std::move(found);
    Places here;
    here.hosts = {"localhost"};
    here.is_local = true;
    return here;
  }

  // The spares that the options of this command ask for; a jobspec of a file may ask for some as well.
  [[nodiscard]] Result<std::uint32_t> spares() const {
    job::Options given;
    CHECK_OK(options_.set_options(given));
    for (const std::string& each : setopt()) CHECK_OK(in("-o " + each, given.set_from_argument(each)));
    return job::spares_of(given);
  }

  [[nodiscard]] Result<JobPlan> job_of_command(const Places& places) const {
    SizeRequest wanted = TRY(options_.sizes(TRY(spares())));
    // --local=N is a number of nodes, like -N, and includes the spares.
    if (places.is_counted && !wanted.nodes && !wanted.tasks && *places.most() > wanted.spares)
      wanted.nodes = *places.most() - wanted.spares;
    const bool is_open = !wanted.tasks && !wanted.nodes && !wanted.tasks_per_node;
    if (places.is_named && places.most()) wanted = size_of_places(wanted, *places.most(), places.tasks);
    const std::vector<std::uint32_t> filled = by_slots(places, wanted, is_open);
    JobSize size = TRY(size_of(wanted, filled.empty() ? places.most() : static_cast<std::uint32_t>(filled.size())));
    JobRequest request = TRY(options_.request(size, setopt()));
    job::Options known(request.options);
    for (const std::string& each : GivenOptions::defaults(known)) CHECK_OK(known.set_from_argument(each));
    const bool has_rounds = wanted.goes_round && !size.tasks_per_node && size.nodes > 1;
    if (has_rounds && !known.at("taskmap"))
      CHECK_OK(known.set_from_argument("taskmap=manual:" + map_of_rounds(size, *wanted.tasks_per_node)));
    if (is_open && places.is_named && places.tasks && show_.explains())
      print_err("{}: tasks: {}, as {} has it\n", verb_->program(), size.tasks, places.tasks_source);
    follow_slots(filled, known);
    take_limits(places, known);
    request.options = known.json();
    Json jobspec = TRY(jobspec_of(request));
    auto sources = sources_of(given(), setopt());
    sources[""] = verb_->program();
    return JobPlan{dump_json(jobspec), std::move(known), size.shells(), std::move(sources)};
  }

  // Tasks elsewhere get this process's limits by options: on this host they inherit the limits, and srun passes
  // them on.
  static void take_limits(const Places& places, job::Options& options) {
    auto is_elsewhere = [](const std::string& host) { return !launch::is_this_host(host); };
    if (places.is_local || places.by_srun || places.pod ||
        std::none_of(places.hosts.begin(), places.hosts.end(), is_elsewhere))
      return;
    for (const auto& [name, limit] : own_limits()) {
      bool has_other_name = name == "rlimit.nofile" && options.find("rlimit.ofile") != nullptr;
      if (options.find(name) == nullptr && !has_other_name) options.set(name, limit);
    }
  }

  // How many tasks each host has, as its slots say; empty: they do not.
  [[nodiscard]] std::vector<std::uint32_t> by_slots(const Places& places, const SizeRequest& wanted,
                                                    bool is_open) const {
    const std::vector<std::uint32_t>& slots = places.slots;
    const bool all_known = !slots.empty() && std::find(slots.begin(), slots.end(), 0U) == slots.end();
    if (!all_known || !wanted.tasks || wanted.nodes || wanted.tasks_per_node || wanted.spares > 0 ||
        options_.sizes_slots())
      return {};
    const bool is_all = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0}) == *wanted.tasks;
    if (!options_.fills_slots() && !(is_open && places.is_named && is_all)) return {};
    return fill_slots(slots, *wanted.tasks);
  }

  // Hosts get these numbers of tasks, if they are not the even distribution, and no other map is asked for.
  static void follow_slots(const std::vector<std::uint32_t>& tasks, job::Options& options) {
    const bool is_even = std::adjacent_find(tasks.begin(), tasks.end(), std::not_equal_to<>()) == tasks.end();
    if (!is_even && options.find("taskmap") == nullptr)
      options.set("taskmap", "manual:" + value::Taskmap::block(tasks).str());
  }

  [[nodiscard]] Result<JobPlan> job_of_file(const Places& places) const {
    const std::string& path = options_.file();
    std::string text = TRY(read_file(path));
    job::Jobspec spec = TRY(in(path == "-" ? "standard input" : path, job::Jobspec::parse(text)));
    job::Options known(spec.options);
    CHECK_OK(options_.set_options(known));
    for (const std::string& each : setopt()) CHECK_OK(in("-o " + each, known.set_from_argument(each)));
    auto sources = sources_of(given(), setopt());
    for (const std::string& each : GivenOptions::defaults(known)) {
      sources[each.substr(0, each.find('='))] = verb_->program();
      CHECK_OK(known.set_from_argument(each));
    }
    take_limits(places, known);
    Json& attributes = spec.document["attributes"];
    if (attributes.is_null()) attributes = Json::object();
    attributes["system"]["shell"]["options"] = written_options(known.json());
    CHECK_OK(options_.change(spec.document));
    std::uint32_t most = places.most().value_or(spec.nodes.value_or(1 + TRY(job::spares_of(known))));
    std::string jobspec = TRY(with_callers(std::move(spec.document)));
    return JobPlan{std::move(jobspec), std::move(known), most, std::move(sources)};
  }

  Result<LaunchPlan> plan_of(Places places, JobPlan job) {
    LaunchPlan plan;
    plan.record.front = verb_->program();
    for (std::string& each : show_.shell_words()) places_.add_shell_option(std::move(each));
    if (show_.explains()) plan.record.sources = std::move(job.sources);
    plan.quiet = show_.is_quiet();
    CHECK_OK(places_.put(std::move(places), job.shells, plan));
    if (!job.jobspec.empty()) plan.record.jobspec = std::move(job.jobspec);
    // The jobspec has these limits as well; in it a limit above a hard one is no error.
    for (const std::string& each : options_.setopt()) {
      if (each.starts_with("rlimit")) plan.record.options.push_back(each);
    }
    CHECK_OK(job::OnLost::read(job.options));
    CHECK_OK(job::spares_of(job.options));
    plan.reports = TRY(options_.words().reports());
    for (LaunchReport& each : plan.reports) each.appends = each.channel == "joblog" && options_.resumes();
    plan.input = options_.reads_input() || is_null(STDIN_FILENO) ? -1 : STDIN_FILENO;
    plan.record.input = plan.input >= 0;
    if (plan.in_pod && !show_.explains()) CHECK_OK(read_on_leader_lost(job.options, false, plan));
    if (plan.in_pod) return plan;  // there is no launcher that could go
    let_leave(job.options, plan);
    if (!show_.explains()) CHECK_OK(read_on_launcher_lost(job.options, plan));
    if (options_.detaches()) CHECK_OK(detach_at_start(job.options, plan));
    if (!show_.explains()) CHECK_OK(read_on_leader_lost(job.options, options_.words().has("--label-io"), plan));
    return plan;
  }

  cli::CommandLine* verb_ = nullptr;
  RunOptions options_;
  PlaceOptions places_;
  ShowOptions show_;
};

}  // namespace

VerbPtr make_run() { return std::make_unique<Run>(); }

}  // namespace nacre::front
