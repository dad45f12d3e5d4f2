// SPDX-License-Identifier: Apache-2.0
//
// hooks: the user's own programs before and after the tasks, by the options prolog and epilog (once on each node),
// task-prolog and task-epilog (for each task); see command.hpp for their form.
//
//   shell.post-init   the prolog, then the task-prologs; no task of the job starts before all have ended
//   shell.restart, shell.take-over  the task-prologs of tasks that start again
//   task.init         applies the changes of the environment that the task's prolog has printed
//   task.exit         the task-epilog
//   shell.finish      the epilog, once the task-epilogs have ended
//
// A prolog that fails ends the job. If an epilog fails the job fails once all has ended: running tasks are not
// ended for it. Hooks get the signals that ask a job to end, and SIGKILL if they do not end then.
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "base/file.hpp"
#include "job/option_types.hpp"
#include "plugins/builtins.hpp"
#include "plugins/hooks/command.hpp"
#include "plugins/hooks/runner.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kEpilogHold = "hooks: task-epilog";
constexpr const char* kExitStatus = "NACRE_EXIT_STATUS";
constexpr std::size_t kMaxSettings = 10'000;  // that one task's prolog may make
constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

class Hooks final : public plugin::Plugin {
 public:
  explicit Hooks(plugin::Host& host) : Plugin("hooks"), host_(host), runner_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("shell.post-init", [this](plugin::Call&) { return begin(); });
    for (const char* topic : {"shell.take-over", "shell.restart"})
      on(topic, [this](plugin::Call& call) -> Result<void> {
        if (!task_prolog_) return {};
        host_.hold_start(name());
        return run_task_prologs(TRY(value::Idset::parse(call.in.value("ranks", ""))));
      });
    on("task.init", [this](plugin::Call&) {
      if (!settings_.empty()) apply(*host_.current_task());
      return Result<void>();
    });
    on("task.exit", [this](plugin::Call&) {
      if (task_epilog_) run_task_epilog(*host_.current_task());
      return Result<void>();
    });
    on("shell.finish", [this](plugin::Call&) {
      tasks_ended_ = true;
      end_if_done();
      return Result<void>();
    });
  }

 private:
  Result<void> read() {
    const auto& command = host_.job().spec.command;
    prolog_ = TRY(HookCommand::read(host_.options(), "prolog", command));
    epilog_ = TRY(HookCommand::read(host_.options(), "epilog", command));
    task_prolog_ = TRY(HookCommand::read(host_.options(), "task-prolog", command));
    task_epilog_ = TRY(HookCommand::read(host_.options(), "task-epilog", command));
    grace_ = event::Seconds(TRY(job::kill_timeout(host_.options())).seconds());
    if (prolog_ || task_prolog_) host_.start_after_all();
    return {};
  }

  // ---- before the tasks ----------------------------------------------------------

  Result<void> begin() {
    if (prolog_ || epilog_ || task_prolog_ || task_epilog_) CHECK_OK(watch_signals());
    if (epilog_ || task_epilog_) host_.hold(name());
    if (!prolog_ && !task_prolog_) return {};
    host_.hold_start(name());
    if (!prolog_) return run_task_prologs();
    runner_.add({.name = prolog_->name,
                 .command = command_of(*prolog_, host_.environment()),
                 .timeout = prolog_->timeout,
                 .on_end = [this](Result<void> ended) {
                   if (ended) ended = run_task_prologs();
                   if (!ended) fail(ended.error());
                 }});
    return {};
  }

  Result<void> watch_signals() {
    for (int signum : kForwarded) {
      signals_.push_back(TRY(event::SignalWatcher::create(
          host_.loop(), signum, [this](int received) { runner_.end_all(received, grace_); })));
      signals_.back().keeps_running(false);
    }
    return {};
  }

  // `ranks`: of these tasks; none: of all.
  Result<void> run_task_prologs(const std::optional<value::Idset>& ranks = std::nullopt) {
    if (!task_prolog_ || host_.tasks().empty()) return host_.release_start(name());
    prologs_left_ = ranks ? ranks->size() : host_.tasks().size();
    settings_.resize(host_.tasks().size());
    for (const auto& task : host_.tasks()) {
      if (ranks && !ranks->contains(task->rank())) continue;
      std::uint32_t id = task->local_id();
      settings_[id].clear();
      runner_.add({.name = fmt::format("task {}: {}", task->rank(), task_prolog_->name),
                   .command = command_of(*task_prolog_, task->command().env),
                   .timeout = task_prolog_->timeout,
                   .on_line = [this, id](std::string_view line) { return take(settings_[id], line); },
                   .on_end = [this](Result<void> ended) { task_prolog_ended(std::move(ended)); }});
    }
    return {};
  }

  void task_prolog_ended(Result<void> ended) {
    if (ended && --prologs_left_ == 0) ended = host_.release_start(name());
    if (!ended) fail(ended.error());
  }

  // The first error is the one that is shown.
  void fail(const Error& error) {
    runner_.drop_waiting();
    if (!std::exchange(failed_, true)) host_.raise({"exec", 0, error.message + here(), std::nullopt});
  }

  // " on HOST", if there are several.
  [[nodiscard]] std::string here() const {
    const job::Job& job = host_.job();
    return job.shells() > 1 ? job.resources.nodes[job.shell_rank].on() : "";
  }

  using Settings = std::vector<PrologLine>;

  static Result<void> take(Settings& settings, std::string_view text) {
    PrologLine line = TRY(PrologLine::parse(text));
    if (line.kind == PrologLine::Kind::other) return {};
    if (line.kind == PrologLine::Kind::print) {
      if (int error = write_all(STDOUT_FILENO, line.text + '\n'); error != 0) return system_error(error, "stdout");
      return {};
    }
    if (settings.size() == kMaxSettings) return invalid(fmt::format("more than {} variables", kMaxSettings));
    settings.push_back(std::move(line));
    return {};
  }

  void apply(task::Task& task) {
    job::Environment& env = task.command().env;
    for (const PrologLine& each : settings_[task.local_id()]) {
      if (each.kind == PrologLine::Kind::set) {
        env.set(each.name, each.text);
      } else {
        env.unset(each.name);
      }
    }
  }

  // ---- after them ------------------------------------------------------------------

  void run_task_epilog(const task::Task& task) {
    task::Command command = command_of(*task_epilog_, task.command().env);
    command.env.set(kExitStatus, fmt::format("{}", task.status().job_code()));
    ++epilogs_left_;
    bool starts_again = task.starts_again();  // once this has ended
    if (starts_again) host_.hold_start(kEpilogHold);
    runner_.add({.name = fmt::format("task {}: {}", task.rank(), task_epilog_->name),
                 .command = std::move(command),
                 .timeout = task_epilog_->timeout,
                 .on_end = [this, starts_again](Result<void> ended) {
                   if (starts_again) static_cast<void>(host_.release_start(kEpilogHold));
                   epilog_ended(std::move(ended));
                 }});
  }

  void epilog_ended(Result<void> ended) {
    if (!ended) {
      log(host_, *this, Level::error, "{}", ended.error().message);
      ++failures_;
    }
    --epilogs_left_;
    end_if_done();
  }

  // Once all tasks and their epilogs have ended, runs the node's epilog; once that has ended, fails the job if one
  // has failed.
  void end_if_done() {
    if (!tasks_ended_ || epilogs_left_ > 0 || (!epilog_ && !task_epilog_)) return;
    if (epilog_ && !std::exchange(epilog_begun_, true)) {
      task::Command command = command_of(*epilog_, host_.environment());
      command.env.set(kExitStatus, fmt::format("{}", largest_code()));
      ++epilogs_left_;
      runner_.add({.name = epilog_->name,
                   .command = std::move(command),
                   .timeout = epilog_->timeout,
                   .on_end = [this](Result<void> ended) { epilog_ended(std::move(ended)); }});
      return;
    }
    if (failures_ > 0) {
      std::string epilogs = failures_ == 1 ? "epilog" : "epilogs";
      host_.raise({"exec", 0, fmt::format("{} {} failed{}", failures_, epilogs, here()), std::nullopt});
    }
    if (Result<void> released = host_.release(name()); !released) {
      log(host_, *this, Level::error, "{}", released.error().message);
    }
  }

  [[nodiscard]] int largest_code() const {
    int code = 0;
    for (const auto& task : host_.tasks()) {
      if (task->state() == task::State::exited && !task->starts_again())
        code = std::max(code, task->status().job_code());
    }
    return code;
  }

  static task::Command command_of(const HookCommand& hook, const job::Environment& env) {
    task::Command out{hook.argv, job::Environment::over(env), {}};
    // It has no mark of the shell, as it may be cleaning up when the shell is killed
    out.env.unset(job::kShellMark);
    return out;
  }

  plugin::Host& host_;
  HookRunner runner_;
  std::optional<HookCommand> prolog_, epilog_, task_prolog_, task_epilog_;
  std::vector<event::SignalWatcher> signals_;
  event::Seconds grace_{job::kDefaultKillTimeout};
  std::size_t prologs_left_ = 0;    // of tasks
  std::vector<Settings> settings_;  // by local id; empty if there is no task-prolog
  bool tasks_ended_ = false;
  std::size_t epilogs_left_ = 0;
  bool epilog_begun_ = false;
  std::size_t failures_ = 0;  // of epilogs
  bool failed_ = false;       // a prolog has failed
};

}  // namespace

PluginPtr make_hooks(plugin::Host& host) { return std::make_unique<Hooks>(host); }

}  // namespace nacre::plugins
