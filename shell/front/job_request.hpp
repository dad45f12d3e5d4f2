// SPDX-License-Identifier: Apache-2.0
//
// Makes a jobspec (Flux RFC 25) of what the options of `nacre run` ask for. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "value/idset.hpp"

namespace nacre::front {

// The environment that a job gets: the caller's, without the variables that an outer launcher has set for its own
// tasks, and changed by rules. The rules are applied in order, and are those of `flux run --env`:
//
//   -PATTERN   remove the variables whose names match
//   PATTERN    take those of the caller again (a name, or a pattern)
//   NAME=TEXT  set one; $VAR and ${VAR} in TEXT are variables of the job so far, else of the caller, and $$ is a
//              dollar sign
//   ^FILE      the rules in FILE, one a line; empty lines and those that start with # are ignored
//
// A PATTERN is a glob(7) pattern, or /REGEX/, an extended regular expression (regex(7)) that the whole name has to
// match.

using Variables = std::map<std::string, std::string, std::less<>>;

// The variables of a block like environ(7). Entries that are not NAME=value are left out.
[[nodiscard]] Variables variables_of(const char* const* block);

// Removes the variables that launchers set for the processes that they start; they would mislead the processes of
// another job: PMI_*, PMIX_*, those of a Slurm step, those of Flux and nacre about a task and its job, and those of
// Hydra, Open MPI, PRRTE and PALS.
[[nodiscard]] bool is_of_outer_launcher(std::string_view name);
void drop_outer_launcher(Variables& variables);

// A jobspec is JSON, and all text in JSON is UTF-8: removes the variables that are not UTF-8, and returns their
// names.
std::vector<std::string> drop_no_utf8(Variables& variables);

class EnvironmentRules {
 public:
  static constexpr std::size_t kMaxFile = std::size_t{8} << 20;  // bytes of a file of rules

  // `caller`: the environment that PATTERN and $VAR are looked up in.
  explicit EnvironmentRules(Variables caller) : caller_(std::move(caller)), job_(caller_) {
    drop_outer_launcher(job_);
  }
  // The same, but the job's environment is `job` before the rules.
  EnvironmentRules(Variables caller, Variables job) : caller_(std::move(caller)), job_(std::move(job)) {}

  // Errors name the rule; errors in a file of rules name the file and the line.
  Result<void> apply(std::string_view rule) { return apply_one(rule, false); }
  Result<void> apply_file(const std::string& path);
  // The text of a file of rules, which cannot name another file.
  Result<void> apply_text(std::string_view text, std::string_view name);

  [[nodiscard]] const Variables& job() const { return job_; }

 private:
  Result<void> apply_one(std::string_view rule, bool in_file);
  Result<void> remove(std::string_view pattern);
  Result<void> take(std::string_view pattern);
  [[nodiscard]] Result<std::string> expand(std::string_view text) const;
  [[nodiscard]] const std::string* find(std::string_view name) const;

  Variables caller_;
  Variables job_;
};

// How many tasks and nodes the user asked for; none: the option was not given.
struct SizeRequest {
  std::optional<std::uint32_t> tasks;
  std::optional<std::uint32_t> nodes;  // with tasks
  std::optional<std::uint32_t> tasks_per_node;
  std::uint32_t spares = 0;
  bool goes_round = false;  // if tasks are more than nodes times the tasks of each, each node gets as many again,
                            // in turn
  std::optional<std::uint32_t> least_nodes = {};  // then `nodes` is the most of a range
};

struct JobSize {
  std::uint32_t tasks = 1;
  std::uint32_t nodes = 1;  // with tasks
  // Tasks on each node; none: the tasks go where cores are, as evenly as possible.
  std::optional<std::uint32_t> tasks_per_node;
  std::uint32_t spares = 0;  // nodes without tasks, behind the others
  // If the job may get other nodes: the least and the most, with as many tasks on each.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> range = {};
  [[nodiscard]] std::uint32_t shells() const { return nodes + spares; }
  bool operator==(const JobSize&) const = default;
};

// The value of -N: "4", "4+1" with a spare, or "2:8" for as many as there are, which may come and go.
struct NodeCounts {
  std::uint32_t nodes = 1;                  // the most
  std::optional<std::uint32_t> least = {};  // none: no others
  std::optional<std::uint32_t> spares;      // none: only a number of nodes is given

  static Result<NodeCounts> parse(std::string_view text);
};

// `places`: how many nodes there are; none: as many as the request asks for. Without a number of tasks there is 1
// task, or one on each node if the request has a number of nodes. Without a number of nodes all places are used,
// except those for spares, and at most as many as there are tasks; a range uses as many as there are. Errors name
// the options.
Result<JobSize> size_of(const SizeRequest& request, std::optional<std::uint32_t> places);

// For a size that goes round: which ranks each node has, by the scheme `manual` of the option taskmap.
[[nodiscard]] std::string map_of_rounds(const JobSize& size, std::uint32_t each);

// Which of `tasks` tasks a host has: as many as its slots, in order, if all hosts have slots (not 0). What is left,
// and all if some host has none, is given out evenly in blocks. Hosts behind the last one with tasks are left out.
[[nodiscard]] std::vector<std::uint32_t> fill_slots(const std::vector<std::uint32_t>& slots, std::uint32_t tasks);

// What a request without numbers of tasks, of nodes, and of tasks on each stands for: `tasks`, if these were asked
// for elsewhere, otherwise one on each of `places`, except those for spares.
[[nodiscard]] SizeRequest size_of_places(SizeRequest request, std::uint32_t places,
                                         std::optional<std::uint32_t> tasks);

struct JobRequest {
  std::vector<std::string> command;  // not empty
  JobSize size;
  std::uint32_t cores_per_task = 1;
  std::uint32_t gpus_per_task = 0;
  std::optional<std::uint32_t> at_most;  // tasks of each node that run at the same time; none: all
  double duration = 0;                   // seconds; 0: no limit
  std::string name;                      // empty: none
  std::string cwd;
  Variables environment;
  Json options = Json::object();  // of the shell
};

// The shell's options as a jobspec has them: there exit-on-error=1 means the first task to end (Jobspec::parse),
// and "on" any task that fails.
Json written_options(Json options);

// An error: an argument is not UTF-8, or has a NUL, which no argument of a program can have.
Result<Json> jobspec_of(const JobRequest& request);

// The value of -t: a number of minutes, or a Flux Standard Duration (RFC 23): "90s", "1.5h".
Result<double> time_limit_of(const std::string& text);

// What a job takes over from the process that starts it: the working directory and the environment.

// The working directory: $PWD if that names it, as a shell shows it; else what getcwd(3) returns.
Result<std::string> own_directory();

// The environment of this process.
[[nodiscard]] Variables own_environment();

// The soft limits of this process, as options of the shell, by their paths. Tasks on other hosts need them; tasks
// here have them anyway. Limits that each kernel derives from its host's memory (nproc, sigpending, memlock), and
// those that need rights, are left out.
[[nodiscard]] std::vector<std::pair<std::string, Json>> own_limits();

// Prints to standard error which variables are left out because a jobspec cannot hold them.
void leave_out_no_utf8(Variables& variables);

// Takes the text of a valid jobspec, and adds attributes.system.cwd and attributes.system.environment if they are
// missing.
Result<std::string> with_callers(Json jobspec);

// A job with a task for each element of a list, as GNU parallel and xargs have them.

// Cuts the list off the words of a command: the words behind `:::`, or the lines of the file behind `::::`. None:
// there is neither. An error: the list is empty, or there is a second one.
Result<std::optional<std::vector<std::string>>> take_list(std::vector<std::string>& words);
// The lines of a file but for those that are empty; "-" is standard input.
Result<std::vector<std::string>> read_list(const std::string& path);
// Each {} of the command becomes the tag of the task's element; without {} the tag is the last argument.
void put_elements(std::vector<std::string>& command);

struct JoblogRequest {
  const std::vector<std::string>& command;  // of each task, with the tags of its element; empty: not known
  const std::vector<std::string>& list;     // the elements, or none
  std::uint32_t tasks;                      // of the job
  bool again;                               // tasks that have failed run again
};
// Makes the option ended-before of the lines of a joblog (usage::parse_joblog). An error: the joblog is another
// job's.
Result<Json> ended_before(std::string_view joblog, const JoblogRequest& request);

// Several programs in one job: reads a file as srun's --multi-prog takes it, and makes the shell's option
// multi-prog of it.
//
//   # ranks  program  arguments
//   0        ./server --port 7000
//   1-3,5    ./worker "a b" %t
//   *        ./idle
//
// RANKS are an idset (RFC 22) without brackets or with them; * stands for all ranks that no other line names. Words
// are split as a shell does, with '', "" and \; a line that ends in \ goes on in the next. The shell replaces %t by
// the task's rank, and %o by the task's number within its line (nacre-shell-options(7)).
struct Program {
  std::optional<value::Idset> ranks;  // none: all that no other program has
  std::vector<std::string> command;   // not empty
  bool operator==(const Program&) const = default;
};

struct MultiProg {
  static constexpr std::size_t kMaxText = std::size_t{16} << 20;  // bytes of a file
  static constexpr std::size_t kMaxPrograms = 65536;

  std::vector<Program> programs;  // not empty

  // Errors name the line. A rank that two lines name, and a second *, are errors.
  static Result<MultiProg> parse(std::string_view text);

  // The least number of tasks that the file needs: one more than its largest rank; none, if it has only *.
  [[nodiscard]] std::optional<std::uint64_t> least_tasks() const;
  // Checks that each of `tasks` tasks has a program, and that no program has a higher rank; the error names the
  // ranks.
  [[nodiscard]] Result<void> check(std::uint64_t tasks) const;
  [[nodiscard]] Json option() const;  // [{"ranks": "0-3", "command": [...]}, {"command": [...]}]
};

// A line's words, as a shell would split them, up to a comment. An error: a quote is not closed.
Result<std::vector<std::string>> words_of(std::string_view line);

}  // namespace nacre::front
