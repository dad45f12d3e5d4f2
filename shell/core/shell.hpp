// SPDX-License-Identifier: Apache-2.0
//
// The shell: makes everything, runs the phases of a job in order, and is the Host of its plugins.
//
//   shell.cpp        the phases
//   running.cpp      while tasks run, and start again
//   shell_ending.cpp how the job ends: failures, signals, the exit code (exits/job_end.hpp decides, the shell acts)
//   shell_tasks.hpp  its tasks: their start and their end
//   shell_group.hpp  the other shells: barriers, losses, the ends of all tasks
//   shell_shrink.hpp shells that leave before the job's end
//   shell_grow.hpp   shells that join while it runs
//   shell_replace.hpp shells that start tasks of lost shells again
//   shell_restart.hpp tasks that have ended, and are started again where they are
//   shell_host.hpp   what plugins see of it
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "boot/identity.hpp"
#include "core/shell_group.hpp"
#include "core/shell_grow.hpp"
#include "core/shell_host.hpp"
#include "core/shell_replace.hpp"
#include "core/shell_restart.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "core/shutdown.hpp"
#include "script/interpreter.hpp"

namespace nacre::core {

class Shell final : public ShellHost {
 public:
  // Reads options, distributes the tasks, and takes over this process's signals. The process and `log` must outlive
  // it. After an error the other shells still wait for this one: see give_up().
  static Result<std::unique_ptr<Shell>> create(join::ShellProcess& process, boot::Identity identity,
                                               ShellConfig config, Log& log);
  ~Shell() override;
  // Runs the job, and returns the exit code. An error is returned only by a job's only shell; the caller logs it,
  // and the exit code is 1. One of several shells has sent its failure to the others, and the leader has logged it.
  Result<int> run();

  std::span<const std::unique_ptr<task::Task>> tasks() override { return tasks_.all(); }
  task::Task* current_task() override { return tasks_.current(); }
  void kill_tasks(int signum) override;
  plugin::Registration shrink(const value::ShrinkOrder& order, WhenShrunk news) override {
    return shrink_.ask(order, std::move(news));
  }
  void grow(const value::GrowOrder& order, const WhenGrown& news) override { grow_.grow(order, news); }
  bool joined_late() const override { return process_.joins_late; }
  void offer_release(plugin::NodeRelease* release) override { shrink_.offer_release(release); }
  plugin::Stack& stack() override { return stack_; }
  void raise(const plugin::RaisedException& exception) override;
  void die(int exit_code, std::string_view component, std::string_view message) override;
  bool ending() const override { return end_.is_ending(); }
  std::optional<exits::TaskEnd> ended_by() const override {
    return end_.cause() ? end_.cause()->task : std::nullopt;
  }
  bool sent_to_tasks(int signum) const override { return end_.has_sent(signum); }

 private:
  Shell(join::ShellProcess& process, boot::Identity&& identity, job::Job&& job, job::Options&& options,
        ShellConfig&& config, Log& log);
  Result<void> prepare_process();  // signals, children, the group
  void begin_timeline();
  void serve_group();

  // The phases, in order (shell.cpp). If one fails, or calls raise() or die(), the job ends.
  void prepare();
  Result<void> load_plugins();
  Result<void> run_initrc();
  Result<void> pass_init_barrier(std::string initrcs);
  Result<void> make_tasks();
  Result<void> initialize();
  void execute();
  Result<void> post_init();
  Result<void> announce_start();
  Result<void> post_first_end();
  void run_tasks();
  [[nodiscard]] bool is_due() const;
  void start_due();
  void stand_by();
  Result<void> take_over();
  void finish();
  void report_left(const std::vector<pid_t>& pids);
  void close_job();
  int leave_job();
  void report_end(int code);  // on the leader, for the whole job
  Result<void> print_plan();
  Result<int> print_plugins();

  [[nodiscard]] bool stops_here();  // whether the job is being ended, after a look for new events
  Result<void> call(std::string_view topic);
  Result<void> call_in_phase(std::string_view topic);

  // How the job ends (shell_ending.cpp).
  void attempt(Result<void> phase);
  void fail(const Error& why);
  void fail_to_join(const exits::Cause& cause);
  bool end_job(const exits::Cause& cause, std::string_view type);
  void log_leaving(std::string_view component, std::string_view message);
  void on_exception(const group::JobException& exception);
  void on_cut_off(const Error& why);
  void on_signal(int signum, join::Signals::From from);
  [[nodiscard]] exits::Work work_for(join::Signals::From from) const;
  void end_tasks();
  [[nodiscard]] int own_code() const;  // by the tasks of this shell
  [[nodiscard]] int job_code(const exits::Outcomes& all) const;

  exits::JobEnd& end_;
  std::optional<Error> failure_;             // of a job's only shell, for the caller
  event::Seconds grace_{};                   // between SIGTERM and SIGKILL
  bool has_started_ = false;                 // the event shell.start has been posted
  std::optional<exits::TaskEnd> first_end_;  // leader: of all tasks
  Stragglers stragglers_;
  ShellTasks tasks_;
  ShellGroup shells_;
  ShellShrink shrink_;
  ShellReplace replace_;
  ShellRestart restart_;
  ShellGrow grow_;
  std::unique_ptr<script::Interpreter> interpreter_;
  plugin::Stack stack_;  // last: plugins may hold references to all above
};

}  // namespace nacre::core
