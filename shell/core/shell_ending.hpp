// SPDX-License-Identifier: Apache-2.0
//
// How the job ends for one shell: exits::JobEnd decides, and ShellEnding acts: on failures, on raised exceptions,
// on signals to this process, and in the last barriers, so that no shell leaves before all know how the job has
// ended.
#pragma once

#include "core/shell_group.hpp"
#include "core/shell_grow.hpp"
#include "core/shell_host.hpp"
#include "core/shell_restart.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "exits/job_end.hpp"
#include "exits/record.hpp"
#include "job/job.hpp"
#include "join/shell_process.hpp"
#include "plugin/host.hpp"
#include "plugin/plan.hpp"
#include "plugin/registration.hpp"
#include "plugins/builtins.hpp"
#include "task/task.hpp"

namespace nacre::core {

// How the command line wants a job to be run here.
struct ShellConfig {
  std::vector<std::string> options;                   // OPT[=VAL], in order
  std::map<std::string, std::string> option_sources;  // of some options, who has set them, for `explain`
  std::optional<std::string> initrc;    // none: the option `initrc`, else the installed one (not when standalone)
  std::optional<std::string> eventlog;  // none: guest.exec.eventlog of the job's record, if there is one
  std::optional<std::string> record_directory;  // made if it is missing
  int verbose = 0;                              // 1: debug, 2: trace
  bool quiet = false;                           // nothing but warnings and errors
  bool exit_local = false;                      // exit with this shell's code, not the job's
  bool has_input = true;                        // the job's stdin, which is shell 0's, is not /dev/null
  bool detaches = false;                        // the job detaches once it runs: nacre run -d
  bool may_be_left = false;                     // its launcher is on a terminal, by which it can be left
  bool at_terminal = false;                     // the job's messages come out on a terminal
  bool explain = false;
  plugin::PlanDetail explain_detail = plugin::PlanDetail::all;
  bool explain_plugins = false;   // only load the plugins, and print what was loaded
  std::string plugin_searchpath;  // for plugin.load
  std::string system_initrc;
  std::string site_initrc;       // in place of system_initrc, where it is there; the lua.d of that one comes last
  std::string mandatory_initrc;  // run before any other initrc, or without one, if the file is there
  std::string library;           // of Lua: the directory of nacre.lua
  // Called before the initrc; tests set another
  std::function<void(plugin::Host&)> load_builtins = plugins::load_builtins;
};

// How a leader is tied to the launcher that has started it, and parts from it (plugin/host.hpp).

// The launcher's standard input, for plugins.
class ShellJobInput final : public plugin::JobInput {
 public:
  explicit ShellJobInput(join::LauncherInput& input) : input_(input) {}
  void ends_with_owner(bool ends) override { input_.ends_with_owner(ends); }
  [[nodiscard]] bool has_ended() const override { return input_.has_ended(); }
  [[nodiscard]] bool is_launchers() const override { return input_.is_launchers(); }
  [[nodiscard]] bool was_taken() const override { return was_taken_; }
  void own(For whom, std::function<void()> on_room) override {
    was_taken_ = was_taken_ || whom == For::other;
    input_.give(std::move(on_room));
  }
  bool write(std::string_view bytes) override { return input_.put(bytes); }
  void end() override { input_.end_given(); }
  void leave() override { input_.leave(); }

 private:
  join::LauncherInput& input_;
  bool was_taken_ = false;
};

class ShellLauncherTie final : public plugin::LauncherTie, public plugin::OutputFile {
 public:
  // All must outlive it; `process` has a detachment.
  ShellLauncherTie(plugin::Host& host, join::ShellProcess& process, bool at_start)
      : host_(host), process_(process), at_start_(at_start) {
    if (process.launch_input) input_.emplace(*process.launch_input);
  }
  ~ShellLauncherTie() override;

  // All tasks of the job have started: from now on it can detach.
  void tasks_run() { running_ = true; }
  // `output` may have to go to a file.
  void offer_output(plugin::TaskOutput& output);
  // The launcher or the terminal has gone. Returns whether the job goes on without it.
  bool gone();
  // The launcher wants to leave: it asks again if it cannot yet.
  void leave();
  [[nodiscard]] bool can_leave() const { return running_ && is_found_ && !host_.ending(); }

  [[nodiscard]] bool starts_detached() const override { return at_start_; }
  void outlive_launcher() override;
  void can_be_found() override { is_found_ = true; }
  Result<void> detach() override;
  [[nodiscard]] bool is_detached() const override { return process_.detachment->is_detached(); }
  [[nodiscard]] std::string directory() const override { return process_.detachment->directory(); }
  [[nodiscard]] std::uint64_t lost_output() const override { return lost_; }

  plugin::JobInput* input() override { return input_ ? &*input_ : nullptr; }
  Result<void> take_over_input() override;

  // As the place of the tasks' output.
  std::optional<int> file() override { return process_.detachment->file(); }
  bool closed() override;
  void lost(const Error& why, std::uint64_t bytes) override;

 private:
  void report(const Error& why);

  plugin::Host& host_;
  join::ShellProcess& process_;
  std::optional<ShellJobInput> input_;
  bool at_start_;
  bool outlives_ = false;
  bool running_ = false;
  bool is_found_ = false;
  std::uint64_t lost_ = 0;  // bytes
};

// What wait4(2) has told of tasks that have ended, measured or not: the CPU time of all, and the memory of the
// largest. Each shell gives these two numbers to the barriers that end the job.
struct WaitedUsage {
  std::int64_t cpu = 0;      // microseconds, user and system
  std::int64_t largest = 0;  // twice the KiB of the largest maximum RSS, plus 1 if that is exact; 0: there is no
                             // task

  // The usage of the tasks that have ended. A maximum RSS is exact if it is more than this process has had, now and
  // before its last execve(2); otherwise it is only an upper bound.
  static WaitedUsage of(std::span<const std::unique_ptr<task::Task>> tasks);

  // {"tasks": of the job, "ended": the tasks that are counted, "cpu": seconds, "maxrss": bytes, "maxrss_is_bound":
  // true, if it is not exact}. `outcomes`: of all tasks. `gone`: shells that have given nothing; "missing" has
  // their tasks, if there are any.
  [[nodiscard]] Json json(const job::Job& job, const exits::Outcomes& outcomes, const value::Idset& gone) const;
};

class ShellEnding : Noncopyable {
 public:
  // What it acts on. All of it has to outlive this object.
  struct Parts {
    plugin::Host& host;
    join::ShellProcess& process;
    const ShellConfig& config;
    JobEvents& events;
    const HoldCounts& holds;
    Exchange& exchange;
    std::optional<ShellLauncherTie>& launcher;
    ShellTasks& tasks;
    ShellGroup& shells;
    ShellShrink& shrink;
    ShellRestart& restart;
    ShellGrow& grow;
  };

  explicit ShellEnding(const Parts& parts);
  ~ShellEnding() { when_thrown(nullptr); }

  // ---- why the job ends
  void fail(const Error& why);
  void raise(const plugin::RaisedException& exception);
  void die(int exit_code, std::string_view component, std::string_view message);
  void on_exception(const group::JobException& exception);
  void on_cut_off(const Error& why);
  void on_signal(int signum, join::Signals::From from);

  // ---- its tasks
  void kill_tasks(int signum);  // and the processes that get signals with them
  plugin::Registration signal_also(std::function<void(int signum)> processes) {
    return signalled_also_.add(std::move(processes));
  }
  // Posts the end of the task that has ended first, once the job has started.
  void has_started() { has_started_ = true; }
  Result<void> post_first_end();
  void first_has_ended(const exits::TaskEnd& first) { first_end_ = first; }  // leader: of all tasks

  // ---- the shell's end
  void close_job();
  int leave_job();   // the exit code of the process
  void take_over();  // this shell has come to lead
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  [[nodiscard]] int own_code() const;  // by the tasks of this shell
  plugin::Registration on_ended(std::function<void(const Json& summary)> receive) {
    return ended_.add(std::move(receive));
  }

 private:
  [[nodiscard]] const job::Job& job() const { return of_.host.job(); }
  [[nodiscard]] bool has_siblings() const { return job().shells() > 1 && !of_.host.standalone(); }
  [[nodiscard]] exits::JobEnd& end() const { return of_.process.end; }
  template <typename... Args>
  void log(Level level, std::string_view component, fmt::format_string<Args...> format, Args&&... args) const {
    of_.host.log().log(level, component, format, std::forward<Args>(args)...);
  }

  void fail_to_join(const exits::Cause& cause);
  bool end_job(const exits::Cause& cause, std::string_view type);
  void on_thrown(const Component* component, std::string_view what);
  void log_leaving(std::string_view component, std::string_view message) const;
  [[nodiscard]] exits::Work work_for(join::Signals::From from) const;
  void end_tasks();
  [[nodiscard]] int job_code(const exits::Outcomes& all) const;
  int decide_code(bool has_run);
  void report_end(int code);  // on the leader, for the whole job

  Parts of_;
  plugin::CallbackList<int> signalled_also_;
  plugin::CallbackList<const Json&> ended_;
  std::optional<Error> failure_;  // of a job's only shell, for the caller
  bool has_started_ = false;
  bool leaves_ = false;  // the barriers are over: the leader decides how the job ends
  std::optional<exits::TaskEnd> first_end_;
  WaitedUsage used_;              // leader: of all tasks, once the shells have given it
  value::Idset gave_none_;        // shells that were gone when the others gave theirs
  std::set<std::string> thrown_;  // what on_thrown() has told
};

}  // namespace nacre::core
