// SPDX-License-Identifier: Apache-2.0
//
// The shell: makes everything, and runs the phases of a job in order (shell.cpp). Its parts:
//
//   shell_host.hpp    what it keeps for its plugins, and their Host
//   shell_tasks.hpp   its tasks: their start and their end; which start next
//   shell_group.hpp   the other shells: barriers, losses, the ends of all tasks
//   shell_shrink.hpp  shells that leave before the job's end
//   shell_grow.hpp    shells that join while it runs, and those that start tasks of lost shells again
//   shell_restart.hpp tasks that have ended, and are started again where they are
//   shell_ending.hpp  how the job ends: failures, signals, the exit code
#pragma once

#include "boot/identity.hpp"
#include "core/shell_ending.hpp"
#include "core/shell_group.hpp"
#include "core/shell_grow.hpp"
#include "core/shell_host.hpp"
#include "core/shell_restart.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "core/shutdown.hpp"
#include "elastic/roster.hpp"
#include "job/environment.hpp"
#include "job/job.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"
#include "join/shell_process.hpp"
#include "plugin/stack.hpp"
#include "script/interpreter.hpp"

namespace nacre::core {

class Shell : Noncopyable {
 public:
  // Reads options, distributes the tasks, and takes over this process's signals. The process and `log` must outlive
  // it. After an error the other shells still wait for this one: see give_up().
  static Result<std::unique_ptr<Shell>> create(join::ShellProcess& process, boot::Identity identity,
                                               ShellConfig config, Log& log);
  ~Shell();

  // Runs the job, and returns the exit code. An error is returned only by a job's only shell; the caller logs it,
  // and the exit code is 1. One of several shells has sent its failure to the others, and the leader has logged it.
  Result<int> run();
  [[nodiscard]] plugin::Host& host() { return *host_; }

 private:
  friend class ShellHost;

  Shell(join::ShellProcess& process, bool standalone, job::Job&& job, job::Options&& options, ShellConfig&& config,
        Log& log);
  Result<void> prepare_process();  // signals, children, the group
  Result<void> open_record();
  void begin_timeline();
  void serve_group();
  void follow(group::Rank leader);
  [[nodiscard]] std::string on_node(group::Rank shell) const;
  Result<void> prepare_to_lead();
  void lead();
  Result<void> hand_over();
  void ask_launcher(const value::Idset& others);
  value::Idset launcher_agrees();

  // The phases, in order (shell.cpp). If one fails, or calls raise() or die(), the job ends.
  void prepare();
  Result<void> load_plugins();
  Result<void> run_initrc();
  Result<void> pass_init_barrier(const std::function<std::string()>& mark);
  Result<void> check_hosts();
  Result<void> make_tasks();
  Result<void> initialize();
  void execute();
  Result<void> post_init();
  Result<void> announce_start();
  void run_tasks();
  [[nodiscard]] bool is_due();
  void start_due();
  void stand_by();
  Result<void> take_over();
  void finish();
  void report_left(const std::vector<pid_t>& pids);
  Result<void> print_plan();
  Result<int> print_plugins();

  void attempt(Result<void> phase);
  [[nodiscard]] bool stops_here();  // whether the job is being ended, after a look for new events
  void wait_for_start_holds();
  Result<void> call(std::string_view topic);
  Result<void> call_in_phase(std::string_view topic);
  [[nodiscard]] bool has_siblings() const { return job_.shells() > 1 && !standalone_; }
  [[nodiscard]] event::Loop& loop() { return *process_.loop; }

  std::unique_ptr<plugin::Host> host_;
  join::ShellProcess& process_;
  Log& log_;
  ShellConfig config_;
  bool standalone_;
  job::Job job_;
  job::Options options_;
  job::Environment environment_;  // of the job
  exits::Policy exit_policy_;     // `max` until the taskmap is final
  event::Seconds grace_{};        // between SIGTERM and SIGKILL
  exits::JobEnd& end_;

  HoldCounts holds_;
  HoldCounts start_holds_;
  bool starts_after_all_ = false;  // since the init barrier: whether any shell has called start_after_all()
  JobEvents events_;
  Exchange exchange_;
  plugin::TaskOutput* task_output_ = nullptr;
  std::optional<ShellLauncherTie> launcher_tie_;
  std::optional<value::Idset> wanted_without_;  // it would lead without these, if the launcher agreed
  bool launcher_agrees_ = false;
  ShellTasks tasks_;
  ShellGroup shells_;
  ShellShrink shrink_;
  ShellRestart restart_;
  ShellGrow grow_;
  ShellResize resize_;
  ShellReplace replace_;
  ShellEnding ending_;
  Stragglers stragglers_;
  std::unique_ptr<script::Interpreter> interpreter_;
  plugin::Stack stack_;  // last: plugins may hold references to all above
};

// A line for each subscription of a plugin to a topic that no shell calls, with the topic that may be meant. Other
// unknown topics may be those of plugins.
[[nodiscard]] std::vector<std::string> misspelt_topics(const plugin::Stack& stack);

// Shell options and members of the jobspec that are not read: most of them are misspelt.

// To be called once the plugins have read their options. Returns a line for each option that is set, but neither
// read by anybody nor in job::option_table(), with the name that may be meant; one for each option that only a file
// of the installed initrc reads, if this job has not loaded that file; and one for each member of the jobspec's
// attributes.system whose name is near to one that is read. Managers may read other members.
[[nodiscard]] std::vector<std::string> unread_options(const job::Options& options, const job::Jobspec& spec);

// Logs these lines as warnings. With the option `strict` the first is the error.
Result<void> report_unread_options(const job::Options& options, const job::Jobspec& spec, Log& log);

// The job and its options, made from what all shells of the job have in common.
struct WhatToRun {
  job::Options options;
  job::Job job;
  std::string sharing;  // how many tasks share how many cores, for people; "": nothing has to be reported
};

// Takes the jobspec and the resources out of `identity`. `growth`: for a shell that joins a running job, all shells
// that have joined it; else null.
Result<WhatToRun> what_to_run(boot::Identity& identity, const ShellConfig& config, const elastic::Growth* growth);

// The options of the jobspec, with those of the command line, OPT[=VAL].
Result<job::Options> merged_options(const job::Jobspec& spec, const std::vector<std::string>& arguments);

// Tasks may share cores, by the option oversubscribe, which has been read before without an error.
[[nodiscard]] bool shares_cores(const job::Options& options);

}  // namespace nacre::core
