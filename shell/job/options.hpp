// SPDX-License-Identifier: Apache-2.0
//
// The shell options of a job: attributes.system.shell.options of the jobspec, then -o on the command line, then
// what an initrc or a plugin sets. They are a JSON object; "a.b.c" names a member of a member. See
// nacre-shell-options(7).
#pragma once

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "job/resources.hpp"
#include "value/duration.hpp"

namespace nacre::job {

// Reads a switch: false for false, 0, and the texts that mean it. An error if it is neither boolean, nor number,
// nor such a text.
Result<bool> switch_of(const JsonAt& option);

class Options {
 public:
  Options() = default;
  explicit Options(Json object) : object_(std::move(object)) {}  // an object

  [[nodiscard]] const Json& json() const { return object_; }

  // The option at a dotted path; nullptr if it is not set.
  [[nodiscard]] const Json* find(std::string_view path) const;
  // The same, for reading with checks; its path() starts with the option's name.
  [[nodiscard]] std::optional<JsonAt> at(std::string_view path) const;
  // For exit-on-error, exit-timeout and others: the option or, if it is an object, the member that a plain value
  // would set.
  [[nodiscard]] std::optional<JsonAt> value_at(std::string_view name) const;
  // Whether it is set, and switch_of() is true.
  [[nodiscard]] Result<bool> flag(std::string_view path) const;
  // For a switch that an object also turns on (fault-tolerance, pty, signal, ...): whether it is on. An invalid
  // value counts as off here.
  [[nodiscard]] bool is_switched_on(std::string_view name) const;

  // Sets the option at a dotted path, making the objects on the way. A scalar on the way is replaced, except for
  // options whose value is also a member (exit-timeout is exit-timeout.timeout): set in any order, both are kept. A
  // switch that is an object is on, and keeps the object when it is turned on again.
  void set(std::string_view path, Json value);
  void unset(std::string_view path);
  // Notes for people who has set the option at this path: "site.lua:7". The command line and the jobspec need no
  // note.
  void note_setter(std::string_view path, std::string setter);
  [[nodiscard]] const std::map<std::string, std::string>& setters() const { return setters_; }

  // The first names of all paths that were asked for, set or not.
  [[nodiscard]] const std::set<std::string, std::less<>>& asked() const { return asked_; }
  void ask(std::string_view name) const;  // for callers that read json()

  // Sets "OPT" or "OPT=VAL" from the command line: the value is 1 without "=", else JSON if it is valid, else a
  // string. EINVAL: it is neither, or is an option without "=" for which 1 would be no sensible value.
  Result<void> set_from_argument(std::string_view argument);
  // Whether such an argument has set the option at this path, or an object that it is in.
  [[nodiscard]] bool is_of_argument(std::string_view path) const;

 private:
  Json object_ = Json::object();
  mutable std::set<std::string, std::less<>> asked_;
  std::vector<std::string> arguments_;  // their paths
  std::map<std::string, std::string> setters_;
};

// Types that several options of the shell share (nacre-shell-options(7), "Values"). Each function reads one option;
// an error names the option and what was expected. Arrays and numbers are accepted if the command line makes them
// of the text.

// A time: a number of seconds, or text in Flux Standard Duration (RFC 23). Not negative; may be infinite.
Result<value::Duration> seconds_option(const JsonAt& option);

// A number of bytes: a number, or text with a unit, "10M". k, M, G, T, in either case, are powers of 1024, as in
// flux-shell-options(7).
Result<std::uint64_t> size_option(const JsonAt& option);

// Ranks of tasks: "all" (none), an idset (RFC 22), a rank, or an array of ranks.
Result<std::optional<value::Idset>> ranks_option(const JsonAt& option);
// The same for a job with `tasks` tasks: other ranks are an error.
Result<std::optional<value::Idset>> ranks_option(const JsonAt& option, std::uint64_t tasks);
// EINVAL: not all of these are ranks of a job that has so many tasks. `place`: the option's.
Result<void> check_ranks(const std::string& place, const std::optional<value::Idset>& ranks, std::uint64_t tasks);

// The codes for failures, 1 to 255: a code, an idset of them, or an array.
Result<value::Idset> exit_codes_option(const JsonAt& option);

// How many failed tasks are too many.
struct FailureLimit {
  std::uint64_t tasks = 0;  // 0: any number is fine
  bool first_only = false;  // the first task to end decides: if it has succeeded, later failures do not count

  bool operator==(const FailureLimit&) const = default;
};

// A switch, a number of tasks, a share as "25%" of the `job_tasks` tasks of the job, rounded up and at least one,
// or "first".
Result<FailureLimit> failure_limit_option(const JsonAt& option, std::uint64_t job_tasks);

// A list of names: an array, or text with commas between them.
Result<std::vector<std::string>> list_option(const JsonAt& option);

inline constexpr double kDefaultKillTimeout = 5;  // seconds

// The option kill-timeout: how long processes that were asked to end have until SIGKILL.
Result<value::Duration> kill_timeout(const Options& options);

// The option at-most: how many tasks run at the same time on each node, while the others wait; none: all run at
// once. `cores`: on each node as many as there are cores for the slots of the jobspec.
struct AtMost {
  std::optional<std::uint32_t> tasks;  // none: of_cores, or all
  bool of_cores = false;

  // at-most=N|cores
  static Result<AtMost> read(const Options& options);

  [[nodiscard]] bool is_on() const { return tasks || of_cores; }
  // The number on a node with `cores` cores.
  [[nodiscard]] std::optional<std::uint32_t> on(std::uint64_t cores, std::uint32_t cores_per_slot) const;
};

// The option ended-before, an object: tasks that an earlier job has run already, by their ends in the form of
// exits::Record: {"x0": "0-7,9", "s9": "8"}. They do not run again.
Result<std::vector<std::pair<std::string, value::Idset>>> ended_before(const Options& options, std::uint64_t tasks);

// The option fault-tolerance: a switch, or an object with its details.
Result<bool> is_fault_tolerant(const Options& options);

// Whether tasks that have ended are started again, which, how often and when: the option `restart`.
struct RestartOption {
  enum class When : std::uint8_t { never, on_request, on_failure, always };
  enum class Scope : std::uint8_t {
    task,  // the task alone, unless PMI does not allow that
    node,  // all tasks of its shell, unless PMI does not allow that
    job,   // all tasks of the job
  };
  // Tasks of a lost shell start on a spare, with on-lost=replace; those that have ended, ...
  enum class Where : std::uint8_t {
    same,   // where they were
    spare,  // on a spare, if one can take them
    any,    // where they were; tasks of a lost shell also on another shell, if no spare can take them
  };
  static constexpr std::uint64_t kMost = 1'000'000;
  // The job ends when `restarts` restarts in a row have changed nothing that is looked at.
  struct NoProgress {
    enum class Look : std::uint8_t {
      output,   // the largest number that lines of the tasks have behind a word
      file,     // its time, its size, and the target of a link
      command,  // what it prints
    };
    std::uint64_t restarts = 0;
    Look look = Look::output;
    std::string what = "step";  // the word, the file, or the command

    bool operator==(const NoProgress&) const = default;
  };

  When when = When::never;
  std::uint64_t max = 3;  // of the whole job; kMost with no_progress or per_task, unless it is given
  std::optional<std::uint64_t> per_task;  // of each task; none: no limit but `max`
  value::Duration first = value::Duration::of_seconds(1);
  value::Duration longest = value::Duration::of_seconds(60);  // the wait doubles up to it
  value::Idset codes;                                         // that count as failures here; empty: all
  Scope scope = Scope::task;
  Where where = Where::same;
  std::optional<NoProgress> no_progress;

  // restart=never|on-request|on-failure|always
  //     [,max=N][,per-task=N][,backoff=FIRST[:LONGEST]][,codes=SET][,scope=task|node|job][,where=same|spare|any]
  //     [,no-progress=N[:FILE|:output[:WORD]|:!COMMAND]]
  static Result<RestartOption> read(const Options& options);

  [[nodiscard]] bool is_on() const { return when != When::never; }
  bool operator==(const RestartOption&) const = default;
};

// The word before the number that tasks count in their output: the word behind `output`, or "step" without one.
// None: the text is something else.
[[nodiscard]] std::optional<std::string> counted_word(std::string_view text);

// slow-watch=DURATION[,output[:WORD]][,factor=F]|on|off, see nacre-shell-options(7).
struct SlowWatchOption {
  static constexpr double kLeast = 1;                        // seconds
  value::Duration window = value::Duration::of_seconds(30);  // the time that is measured at once
  double factor = 1.5;                                       // slower than the others
  std::string word;                                          // that tasks count; "": not looked at

  // None: it is not given, or off.
  static Result<std::optional<SlowWatchOption>> read(const Options& options);
};

// What becomes of a job that loses a shell with tasks: the options `on-lost` and `tolerate-loss`; or its launcher.
struct OnLost {
  bool replaces = false;  // a spare starts the tasks again
  bool goes_on = false;   // if the tasks are not replaced the job goes on without them; otherwise it ends

  // on-lost=end|go-on|replace[,else=end|go-on]. tolerate-loss is on-lost=go-on. An error if the two differ.
  static Result<OnLost> read(const Options& options);

  bool operator==(const OnLost&) const = default;
};

// What becomes of a job whose leader is lost.
struct OnLeaderLost {
  bool takes_over = false;   // another shell leads from then on, if more than half of them are left
  bool is_followed = false;  // the job's starter follows the new leader, or the job ends
  // The options whose reports the job's starter then writes itself, in place of a descriptor or a file of the first
  // leader.
  std::vector<std::string> reports = {};

  // on-leader-lost=end|take-over[,followed[,REPORT...]]
  static Result<OnLeaderLost> read(const Options& options);
  [[nodiscard]] bool launcher_has(std::string_view report) const {
    return std::find(reports.begin(), reports.end(), report) != reports.end();
  }
};

// on-launcher-lost=end|go-on: whether the job goes on if its launcher goes.
Result<bool> outlives_launcher(const Options& options);

// When the time of a job is over: according to the manager that gave it its nodes (Flux by R's expiration, Slurm by
// a variable), the jobspec, or the option time-limit.
struct EndTime {
  double at;         // seconds since the Epoch
  std::string over;  // the message when it is over: "R has expired"
};

// The value of an environment variable; none: it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;

// SLURM_JOB_END_TIME; none: it is not set, or 0. The other managers give at most the length of the job, but not its
// start. EINVAL: it is no number of seconds since the Epoch.
Result<std::optional<EndTime>> manager_end(const Variables& variables);

// R's expiration, or else manager_end().
Result<std::optional<EndTime>> end_time(const Resources& resources, const Variables& variables);

// The option `time-limit`: infinite for "none"; none: it is not set.
Result<std::optional<value::Duration>> time_limit(const Options& options);

// The earliest end of a job whose tasks start at `start` (seconds since the Epoch): R's expiration, `manager`, and
// `limit`, or else the jobspec's `duration` (seconds; 0: it has none), from the start.
std::optional<EndTime> earliest_end(const Resources& resources, const std::optional<EndTime>& manager,
                                    const std::optional<value::Duration>& limit, double duration, double start);

// What squeue(1) prints as a job's time left (%L), [DAYS-]HOURS:MINUTES:SECONDS or less, in seconds; none: it has
// no limit.
Result<std::optional<double>> parse_slurm_time_left(std::string_view text);

// Coprocesses: programs that run beside the tasks of a job, one process of each on a node. The shell option
// `coprocess` is an object with a member for each, by name, which is an object too, as in flux-shell-options(7):
//
//   command  the program and its arguments; or text for /bin/sh. May have templates, see plugin/tags.hpp
//   output   a template of the file for stdout and stderr; coproc-NAME-{{id}}.log by default
//   ranks    an idset of shell ranks (RFC 22), one such rank as a number, or "all", which is the default
struct Coprocess {
  std::string name;
  std::vector<std::string> command;   // not empty, and neither is its first element
  std::string output;                 // not empty
  std::optional<value::Idset> ranks;  // not empty; none: all

  // A name has letters, digits, '-' and '_' only: it is part of a file's name, and the name of an option.
  static Result<void> check_name(std::string_view name);
  // Reads one entry. Errors start with its path.
  static Result<Coprocess> read(std::string name, const JsonAt& entry);

  [[nodiscard]] bool runs_on(std::uint32_t shell_rank) const { return !ranks || ranks->contains(shell_rank); }
};

// All coprocesses of the option, by name; at least one. Includes those of shells that the job does not have.
Result<std::vector<Coprocess>> read_coprocesses(const JsonAt& option);

}  // namespace nacre::job
