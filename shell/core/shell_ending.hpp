// SPDX-License-Identifier: Apache-2.0
//
// How the job ends for one shell: exits::JobEnd decides, and ShellEnding acts: on failures, on raised exceptions,
// on signals to this process, and in the last barriers, so that no shell leaves before all know how the job has
// ended.
#pragma once

#include "core/launcher_tie.hpp"
#include "core/shell_config.hpp"
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
#include "plugin/registration.hpp"
#include "task/task.hpp"

namespace nacre::core {

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
