// SPDX-License-Identifier: Apache-2.0
//
// The parts of a shell, and how the job ends for them: exits::JobEnd decides, and this acts.
//
//   shell_tasks.hpp   its tasks: their start and their end
//   shell_group.hpp   the other shells: barriers, losses, the ends of all tasks
//   shell_shrink.hpp  shells that leave before the job's end
//   shell_grow.hpp    shells that join while it runs, and those that start tasks of lost shells again
//   shell_restart.hpp tasks that have ended, and are started again where they are
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.hpp"
#include "boot/identity.hpp"
#include "core/shell_group.hpp"
#include "core/shell_grow.hpp"
#include "core/shell_restart.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "exits/outcomes.hpp"
#include "group/statements.hpp"
#include "job/job.hpp"
#include "join/shell_process.hpp"
#include "plugin/host.hpp"
#include "plugin/plan.hpp"
#include "plugins/builtins.hpp"
#include "script/interpreter.hpp"
#include "task/task.hpp"
#include "value/idset.hpp"

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
  bool detaches = false;                        // once it runs: nacre run -d
  bool may_be_left = false;                     // its launcher is on a terminal, by which it can be left
  bool at_terminal = false;                     // the job's messages come out on one
  bool explain = false;
  plugin::PlanDetail explain_detail = plugin::PlanDetail::all;
  bool explain_plugins = false;   // only load the plugins, and print what was loaded
  std::string plugin_searchpath;  // for plugin.load
  std::string system_initrc;
  std::string mandatory_initrc;  // that is run before any other, and without one, where it is there
  std::string library;           // of Lua: the directory of nacre.lua
  // Called before the initrc; tests set another
  std::function<void(plugin::Host&)> load_builtins = plugins::load_builtins;
};

// How a leader is tied to its launcher (plugin/host.hpp), and parts from it.

// The launcher's standard input, for plugins.
class ShellLaunchedInput final : public plugin::LaunchedInput {
 public:
  explicit ShellLaunchedInput(join::LauncherInput& input) : input_(input) {}
  void ends_with_owner(bool ends) override { input_.ends_with_owner(ends); }
  [[nodiscard]] bool has_ended() const override { return input_.has_ended(); }
  [[nodiscard]] bool is_launchers() const override { return input_.is_launchers(); }
  void own(std::function<void()> on_room) override { input_.give(std::move(on_room)); }
  bool write(std::string_view bytes) override { return input_.put(bytes); }
  void end() override { input_.end_given(); }
  void leave() override { input_.leave(); }

 private:
  join::LauncherInput& input_;
};

class ShellLaunched final : public plugin::Launched, public plugin::OutputFile {
 public:
  // All must outlive it; `process` has a detachment.
  ShellLaunched(plugin::Host& host, join::ShellProcess& process, bool at_start)
      : host_(host), process_(process), at_start_(at_start) {
    if (process.launch_input) input_.emplace(*process.launch_input);
  }
  ~ShellLaunched() override;

  // All tasks of the job have started: from now on it can detach.
  void tasks_run() { running_ = true; }
  // `output` may have to go to a file.
  void offer_output(plugin::TaskOutput& output);
  // Whether the job goes on without it: it has gone, or the terminal has.
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

  plugin::LaunchedInput* input() override { return input_ ? &*input_ : nullptr; }

  // As the place of the tasks' output.
  std::optional<int> file() override { return process_.detachment->file(); }
  bool closed() override;
  void lost(const Error& why, std::uint64_t bytes) override;

 private:
  void report(const Error& why);

  plugin::Host& host_;
  join::ShellProcess& process_;
  std::optional<ShellLaunchedInput> input_;
  bool at_start_;
  bool outlives_ = false;
  bool running_ = false;
  bool is_found_ = false;
  std::uint64_t lost_ = 0;  // bytes
};

// The part of a Shell that its plugins see and that decides nothing: what the job is, what holds it, its record,
// and announcements to all shells.
class ShellHost : public plugin::Host {
 public:
  const job::Job& job() const override { return job_; }
  void choose_cores(const value::Idset& ids) override { job_.choose_cores(ids); }
  void choose_gpus(const value::Idset& ids) override { job_.choose_gpus(ids); }
  bool standalone() const override { return standalone_; }
  bool has_input() const override { return config_.has_input; }
  Json info() const override;
  const exits::Policy& exit_policy() const override { return exit_policy_; }
  job::Options& options() override { return options_; }
  job::Environment& environment() override { return environment_; }
  void signal_tasks(int signum, const std::optional<value::Idset>& ranks) override {
    group_->signal(signum, ranks);
  }
  plugin::Registration signal_also(std::function<void(int signum)> processes) override;
  void offer_output(plugin::TaskOutput* output) override;
  plugin::TaskOutput* task_output() override { return task_output_; }
  plugin::Launched* launched() override { return launched_ ? &*launched_ : nullptr; }
  plugin::Registration on_ended(std::function<void(const Json& summary)> receive) override {
    return ended_.add(std::move(receive));
  }
  std::string& plugin_searchpath() override { return config_.plugin_searchpath; }
  int hold(std::string_view name) override;
  Result<void> release(std::string_view name) override;
  int hold_start(std::string_view name) override;
  Result<void> release_start(std::string_view name) override;
  void start_after_all() override { starts_after_all_ = true; }
  void add_event_context(std::string_view event, const Json& members) override;
  const std::optional<std::string>& record_directory() const override { return config_.record_directory; }
  plugin::EventRecord& events() override { return events_; }
  plugin::Registration gather(std::string_view name, std::string mine, WhenGathered done) override;
  plugin::Registration gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                    WhenGathered done) override;
  std::uint32_t last_with_tasks() const override;
  Result<std::string> derived_secret(std::string_view purpose) override {
    return TRY(group_->secret())->derive(purpose);
  }
  Result<void> announce(std::string_view topic, std::string_view bytes) override;
  plugin::Registration on_announcement(Receive receive) override;
  void hold_links(const value::Idset& shells) override { group_->hold_links(shells); }
  plugin::ShellMessages& messages() override { return shell_messages_; }
  plugin::Registration exec(value::ExecOrder order, WhenOrdered done) override;
  plugin::Registration on_exec(std::function<void(const value::ExecShare&)> receive) override;
  bulk::Port* bulk() override { return group_->bulk(); }
  timeline::Recorder& timeline() override { return process_.timeline; }
  Log& log() override { return log_; }
  event::Loop& loop() override { return *process_.loop; }
  event::Children& children() override { return *process_.children; }

 protected:
  ShellHost(join::ShellProcess& process, bool standalone, job::Job&& job, job::Options&& options,
            ShellConfig&& config, Log& log);

  [[nodiscard]] bool has_siblings() const { return job_.shells() > 1 && !standalone_; }
  Result<void> open_record();
  // Records an event of the job, for plugins and in the leader's eventlog. The eventlog ends with the first error.
  Result<void> post(std::string_view event, Json context);

  join::ShellProcess& process_;
  group::Group* group_;
  Log& log_;
  ShellConfig config_;
  bool standalone_;
  job::Job job_;
  job::Options options_;
  job::Environment environment_;  // of the job
  exits::Policy exit_policy_;     // `max` until the taskmap is final
  plugin::CallbackList<int> signalled_also_;
  plugin::CallbackList<const Json&> ended_;
  plugin::TaskOutput* task_output_ = nullptr;
  std::optional<ShellLaunched> launched_;
  plugin::CallbackList<std::string_view, std::string_view> announced_to_;  // topic and bytes
  plugin::ShellMessages shell_messages_;
  plugin::PendingAnswers<Result<plugin::Gathered>> gathers_;
  plugin::PendingAnswers<Result<value::ExecAnswer>> orders_;
  plugin::CallbackList<const value::ExecShare&> ordered_to_;
  std::map<std::string, int, std::less<>> holds_, start_holds_;
  bool starts_after_all_ = false;                           // since the init barrier: whether any shell wants that
  std::map<std::string, Json, std::less<>> event_context_;  // by event
  plugin::EventRecord events_;
  std::optional<group::EventLog> eventlog_;  // the leader's
};

// What wait4(2) has told of tasks that have ended, also where nothing is measured: the CPU time of all, and the
// largest one's memory. The shells give it to the barriers that end the job: each gives two numbers.
struct WaitedUsage {
  std::int64_t cpu = 0;      // microseconds, user and system
  std::int64_t largest = 0;  // twice the KiB of the largest maximum RSS, and 1 if that is exact; 0: of no task

  // Of those that have ended. A maximum RSS is exact if it is more than the shell itself has had, also as the
  // program that it was before; else it is at most so much.
  static WaitedUsage of(std::span<const std::unique_ptr<task::Task>> tasks);

  // {"tasks": of the job, "ended": those that this is of, "cpu": seconds, "maxrss": bytes, "maxrss_is_bound": true,
  // if it is not exact}. `outcomes`: of all tasks. `gone`: shells that have given nothing; "missing" has their
  // tasks, if there are any.
  [[nodiscard]] Json json(const job::Job& job, const exits::Outcomes& outcomes, const value::Idset& gone) const;
};

class ShellEnding : public ShellHost {
 public:
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
  void set_first_failure(const exits::TaskEnd& first) override { end_.set_first(first); }
  bool sent_to_tasks(int signum) const override { return end_.has_sent(signum); }

 protected:
  ShellEnding(join::ShellProcess& process, boot::Identity&& identity, job::Job&& job, job::Options&& options,
              ShellConfig&& config, Log& log);
  ~ShellEnding() override;

  void fail(const Error& why);
  void on_exception(const group::JobException& exception);
  void on_cut_off(const Error& why);
  void on_signal(int signum, join::Signals::From from);
  Result<void> post_first_end();
  [[nodiscard]] int own_code() const;  // by the tasks of this shell
  void close_job();
  int leave_job();

  exits::JobEnd& end_;
  std::optional<Error> failure_;             // of a job's only shell, for the caller
  event::Seconds grace_{};                   // between SIGTERM and SIGKILL
  bool has_started_ = false;                 // the event shell.start has been posted
  std::optional<exits::TaskEnd> first_end_;  // leader: of all tasks
  WaitedUsage used_;                         // leader: likewise, once the shells have given it
  value::Idset gave_none_;                   // shells that were gone then
  ShellTasks tasks_;
  ShellGroup shells_;
  ShellShrink shrink_;
  ShellRestart restart_;
  ShellReplace replace_;
  ShellGrow grow_;
  std::unique_ptr<script::Interpreter> interpreter_;
  plugin::Stack stack_;  // last: plugins may hold references to all above

 private:
  void fail_to_join(const exits::Cause& cause);
  bool end_job(const exits::Cause& cause, std::string_view type);
  void on_thrown(const Component* component, std::string_view what);
  void log_leaving(std::string_view component, std::string_view message);
  [[nodiscard]] exits::Work work_for(join::Signals::From from) const;
  void end_tasks();
  [[nodiscard]] int job_code(const exits::Outcomes& all) const;
  void report_end(int code);  // on the leader, for the whole job

  std::set<std::string> thrown_;  // what on_thrown() has told
};

}  // namespace nacre::core
