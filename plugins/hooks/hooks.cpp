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
// A prolog that fails ends the job. If an epilog fails the job fails when all tasks have ended: it ends no running
// tasks. Hooks get the signals that ask a job to end, and SIGKILL if they do not end.

#include "plugins/hooks/hooks.hpp"

#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "job/environment.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kEpilogHold = "hooks: task-epilog";
constexpr const char* kExitStatus = "NACRE_EXIT_STATUS";
constexpr std::size_t kMaxSettings = 10'000;  // that one task's prolog may make
constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

class Hooks final : public plugin::Plugin {
 public:
  explicit Hooks(plugin::Host& host) : Plugin("hooks"), host_(host), runner_(host) {
    on("shell.init", [this] { return read(); });
    on("shell.post-init", [this] { return begin(); });
    for (const char* topic : {"shell.take-over", "shell.restart"})
      on(topic, [this](plugin::Call& call) -> Result<void> {
        if (!task_prolog_) return {};
        host_.hold_start(name());
        return run_task_prologs(TRY(value::Idset::parse(call.in.value("ranks", ""))));
      });
    on("task.init", [this] {
      if (!settings_.empty()) apply(*host_.current_task());
    });
    on("task.exit", [this] {
      if (task_epilog_) run_task_epilog(*host_.current_task());
    });
    on("shell.finish", [this] {
      tasks_ended_ = true;
      end_if_done();
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

  // `ranks`: the tasks; none: all.
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

  // Only the first error is shown.
  void fail(const Error& error) {
    runner_.drop_waiting();
    if (!std::exchange(failed_, true)) host_.raise({"exec", 0, error.message + here(), std::nullopt});
  }

  // " on HOST", if there are several hosts.
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
    bool starts_again = task.starts_again();  // once this task-epilog has ended
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

  // Runs the node's epilog once all tasks and their epilogs have ended; when it has ended, fails the job if an
  // epilog has failed.
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
    // It has no mark of the shell, as it may be cleaning up when the shell is killed.
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

// ---- command ----------------------------------------------------------------------------

namespace {

constexpr const char* kShell = "/bin/sh";

Result<void> read_command(const JsonAt& option, std::string_view name, const std::vector<std::string>& command,
                          HookCommand& out) {
  if (option.json().is_array()) {
    out.argv = TRY(option.strings());
    if (out.argv.empty() || out.argv.front().empty()) return option.expected("a program and its arguments");
    out.name = fmt::format("{} {}", name, in_quotes(fmt::format("{}", fmt::join(out.argv, " "))));
    return {};
  }
  if (!option.json().is_string()) return option.expected("a command of /bin/sh, or an array of arguments");
  std::string text = TRY(option.string());
  if (trim(text).empty()) return option.expected("a command");
  out.name = fmt::format("{} {}", name, in_quotes(text));
  out.argv = {kShell, "-c", std::move(text), std::string(name)};
  out.argv.insert(out.argv.end(), command.begin(), command.end());
  return {};
}

// What follows `word` and a blank; none if `line` does not begin like that.
std::optional<std::string_view> after(std::string_view line, std::string_view word) {
  if (!line.starts_with(word)) return std::nullopt;
  line.remove_prefix(word.size());
  if (line.empty() || (line.front() != ' ' && line.front() != '\t')) return std::nullopt;
  return line.substr(1);
}

std::string_view without_blanks_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

}  // namespace

Result<std::optional<HookCommand>> HookCommand::read(const job::Options& options, std::string_view option,
                                                     const std::vector<std::string>& command) {
  auto value = options.at(option);
  if (!value || value->json().is_null()) return std::nullopt;
  HookCommand out;
  if (!value->json().is_object()) {
    CHECK_OK(read_command(*value, option, command, out));
    return out;
  }
  CHECK_OK(value->only_keys({"command", "timeout"}));
  CHECK_OK(read_command(TRY(value->at("command")), option, command, out));
  if (auto timeout = TRY(value->find("timeout")); timeout && timeout->json() != "none") {
    out.timeout = TRY(job::seconds_option(*timeout));
  }
  return out;
}

Result<PrologLine> PrologLine::parse(std::string_view line) {
  if (line.size() > kMaxSize) return invalid(fmt::format("a line of more than {} bytes", kMaxSize));
  PrologLine out;
  if (auto text = after(line, "print")) {
    out.kind = Kind::print;
    out.text = *text;
  } else if (auto setting = after(line, "export")) {
    std::size_t equals = setting->find('=');
    if (equals == std::string_view::npos)
      return invalid(fmt::format("{}: expected export NAME=VALUE", in_quotes(line)));
    out.kind = Kind::set;
    out.name = without_blanks_before(setting->substr(0, equals));
    out.text = setting->substr(equals + 1);
    CHECK_OK(in(in_quotes(line), job::Environment::check(out.name, out.text)));
  } else if (auto name = after(line, "unset")) {
    out.kind = Kind::unset;
    out.name = trim(*name);
    CHECK_OK(in(in_quotes(line), job::Environment::check(out.name, "")));
  }
  return out;
}

// ---- runner -----------------------------------------------------------------------------

struct HookRunner::Running {
  Run run;
  std::unique_ptr<task::Subprocess> process{};
  std::optional<event::Timer> limit{};
  std::optional<event::Timer> linger{};
  std::optional<event::Timer> timeout{};  // runs once the program was asked to end
  std::string asked{};                    // the error if it has not ended by then
  std::string killed{};                   // why it was killed
  Result<void> lines{};
};

HookRunner::HookRunner(plugin::Host& host) : host_(host) {}

HookRunner::~HookRunner() = default;

void HookRunner::add(Run run) {
  waiting_.push_back(std::move(run));
  start_next();
}

// Leaves out a program that has ended and only lingers.
void HookRunner::end_all(int signum, event::Seconds grace) {
  for (Running& each : running_) {
    if (!each.process->kill(signum) || !each.asked.empty()) continue;
    each.asked = fmt::format("did not end within {} of {}", value::Duration::of_seconds(grace.count()).str(),
                             value::signal_name(signum));
    each.timeout->start_grace(grace);
  }
}

void HookRunner::give_up(Running& running, const std::string& why) {
  if (running.killed.empty()) running.killed = why;
  static_cast<void>(running.process->kill(SIGKILL));  // the program may have ended without having been reaped
}

void HookRunner::start_next() {
  while (!waiting_.empty() && running_.size() < kMaxAtOnce) {
    Place place = running_.insert(running_.end(), Running{std::move(waiting_.front())});
    waiting_.pop_front();
    Result<void> started = start(place);
    if (started) continue;
    Run run = std::move(place->run);
    running_.erase(place);
    run.on_end(in(run.name, std::move(started)));
  }
}

Result<void> HookRunner::start(Place place) {
  Running& running = *place;
  bool by_line = static_cast<bool>(running.run.on_line);
  task::Subprocess::Options options{.streams = {}, .inherit_stdio = true};
  if (by_line) options.streams = {"stdout"};
  running.run.command.setup.fds.push_back({STDIN_FILENO, -1});

  if (!running.run.timeout.is_infinite()) {
    running.limit = TRY(event::Timer::create(host_.loop(), [&running] {
      give_up(running, fmt::format("took longer than {}", running.run.timeout.str()));
    }));
    running.limit->start_grace(event::Seconds(running.run.timeout.seconds()));
  }
  running.timeout = TRY(event::Timer::create(host_.loop(), [&running] { give_up(running, running.asked); }));
  running.linger = TRY(event::Timer::create(host_.loop(), [this, place] { end(place); }));

  task::Subprocess::Callbacks callbacks;
  if (by_line) callbacks.on_ready = [this, &running](const std::string&) { read(running); };
  callbacks.on_exit = [&running] {
    running.limit.reset();
    running.timeout.reset();
    running.linger->start(kLinger);
  };
  callbacks.on_complete = [this, place] { end(place); };
  auto started = task::Subprocess::start(host_.loop(), host_.children(), std::move(running.run.command),
                                         std::move(options), std::move(callbacks));
  if (!started) return Error(started.error().error);
  running.process = *std::move(started);
  return {};
}

void HookRunner::read(Running& running) {
  task::BufferedStream& out = *running.process->stream("stdout");
  for (std::string_view line = out.get_line(); !line.empty(); line = out.get_line()) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (running.lines) running.lines = running.run.on_line(line);
  }
}

void HookRunner::end(Place place) {
  std::list<Running> ended;  // destroyed at the end of this call, as their callbacks are running
  ended.splice(ended.begin(), running_, place);
  Running& running = ended.front();
  Result<void> result = std::move(running.lines);
  const value::WaitStatus& status = running.process->status();
  if (!running.killed.empty()) {
    result = Error{ETIMEDOUT, running.killed};
  } else if (!status.success()) {
    result = Error{ECANCELED, status.str()};
  }
  running.run.on_end(result ? Result<void>() : in(running.run.name, std::move(result)));
  start_next();
}

}  // namespace nacre::plugins
