// SPDX-License-Identifier: Apache-2.0
//
// The shell: makes everything, runs the phases of a job in order, and is the Host of its plugins.
//
//   shell.cpp       the phases
//   start.cpp       its tasks: their start and their end
//   together.cpp    the other shells: barriers, and what comes from them
//   ending.cpp      how the job ends: failures, signals, the exit code (exits/job_end.hpp decides, the shell acts)
//   shell_host.hpp  what plugins see of it
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "boot/identity.hpp"
#include "childs_line.hpp"
#include "exits/outcomes.hpp"
#include "group/event_log.hpp"
#include "script/interpreter.hpp"
#include "shell_host.hpp"
#include "shutdown.hpp"
#include "task/spawn_pool.hpp"

namespace nacre {

class Shell final : public ShellHost {
 public:
  // Reads options, distributes the tasks, and takes over this process's signals. Footing and `log` must outlive it. After an
  // error the other shells still wait for this one: see give_up().
  static Result<std::unique_ptr<Shell>> create(Footing& footing, boot::Identity identity, ShellConfig config,
                                               Log& log);
  ~Shell() override;
  // Runs the job; the exit code. An error is a failure of the only shell of a job, to be logged by the caller: the exit code
  // is 1. One among several has sent its failure to the others; the leader has logged it.
  Result<int> run();

  std::span<const std::unique_ptr<task::Task>> tasks() override { return tasks_; }
  task::Task* current_task() override { return current_; }
  void kill_tasks(int signum) override;
  plugin::Stack& stack() override { return stack_; }
  void raise(const plugin::Exception& exception) override;
  void die(int exit_code, std::string_view component, std::string_view message) override;
  bool ending() const override { return end_.is_ending(); }

 private:
  Shell(Footing& footing, boot::Identity&& identity, job::Job&& job, job::Options&& options, ShellConfig&& config,
        Log& log);
  Result<void> prepare_process();  // signals, children, the group
  Result<void> open_record();

  // The phases, in order (shell.cpp). An error of one, or a call of raise() or die(), ends the job.
  void prepare();
  Result<void> load_plugins();
  Result<void> run_initrc();
  Result<void> remap();
  Result<void> make_tasks();
  Result<void> initialize();
  void execute();
  Result<void> post_init();
  Result<void> start_tasks();
  Result<void> announce_start();
  void finish();
  void close_job();
  int leave_job();
  Result<void> print_plan();
  Result<int> print_plugins();

  void wait(const std::function<bool()>& done);  // or until the job is being ended
  [[nodiscard]] bool stops_here();               // whether the job is being ended, as far as is known by now
  Result<void> call(std::string_view topic);
  Result<void> call_for(task::Task& task, std::string_view topic);
  Result<void> post(std::string_view event, Json context);
  Result<void> enter_working_directory();

  // The other shells (together.cpp).
  [[nodiscard]] bool leads() const { return job_.shell_rank == 0 || !has_siblings(); }
  void serve_group();
  Result<void> barrier(const std::string& name);
  void last_barrier(const std::string& name);
  void enter(const std::string& name);
  void on_lost(group::Rank rank);
  void report_early_losses();
  void note_ended(const value::Idset& tasks, const exits::Record& record);  // leader: of any shell
  void notify_plugins(const std::string& topic, const Json& what);
  void wait_for_all_tasks();

  // How the job ends (ending.cpp).
  void attempt(Result<void> phase);
  void fail(const Error& why);
  void fail_in_child(std::string_view message);
  bool end_job(const exits::Cause& cause, std::string_view type);
  void on_exception(const group::Exception& exception);
  void on_cut_off(const Error& why);
  void on_signal(int signum, Signals::From from);
  [[nodiscard]] exits::Work work_for(Signals::From from) const;
  bool end_tasks();
  [[nodiscard]] int exit_code(const exits::Outcomes& outcomes) const;
  [[nodiscard]] std::string place(std::string_view named) const;

  // Tasks (start.cpp).
  Result<void> watch_signals();
  Result<void> raise_descriptor_limit();
  using Batch = std::span<const std::unique_ptr<task::Task>>;
  Result<void> start(Batch batch);
  Result<void> prepare_command(task::Task& task);
  Result<void> open_channels(task::Task& task);
  std::vector<task::SpawnPool::Outcome> spawn(Batch batch);
  task::SpawnPool::Outcome spawn_hooked(task::Task& task);
  task::SpawnPool::Outcome ended_in_hook(pid_t pid);
  Result<void> take_up(task::Task& task, const task::SpawnPool::Outcome& spawned);
  void fail_to_start(task::Task& task, const task::SpawnError& failure);
  void on_exit(task::Task& task, const event::ChildExit& end);
  void record_end(const task::Task& task, const exits::Record& record);

  exits::JobEnd& end_;
  std::optional<group::EventLog> eventlog_;  // the leader's
  std::vector<event::SignalWatcher> signals_;
  std::optional<event::Timer> stop_timer_;
  event::Seconds grace_{};
  std::optional<Shutdown> shutdown_;
  Stragglers stragglers_;
  task::SpawnPool spawn_pool_;
  std::vector<std::unique_ptr<task::Task>> tasks_;
  exits::Outcomes mine_, all_;  // how the tasks of this shell ended; leader: those of all shells
  value::Idset victims_;        // tasks that ran when this shell began to end them
  task::Task* current_ = nullptr;
  ChildsLine* childs_line_ = nullptr;  // in a child that runs task.exec: what it reports goes there
  std::size_t running_ = 0;
  std::optional<rlimit> own_descriptor_limit_;  // as it was before it was raised
  std::map<std::string, bool> barriers_;        // that were entered: whether they are over
  std::optional<Error> failure_;                // of the only shell of a job, for the caller
  value::Idset lost_;                           // shells
  bool reports_losses_ = false;                 // to plugins: they have run shell.post-init
  std::unique_ptr<script::Interpreter> interpreter_;
  plugin::Stack stack_;  // last: plugins may hold references to all above
};

}  // namespace nacre
