// SPDX-License-Identifier: Apache-2.0
//
// How the job ends, as far as this shell acts: exits::JobEnd decides.
#include <csignal>

#include <fmt/format.h>

#include "event/clock.hpp"
#include "leaving.hpp"
#include "shell.hpp"

namespace nacre {
namespace {

using exits::Action;

constexpr const char* kType = "exec";  // of an exception, as flux-shell raises them
constexpr std::string_view kBuiltin = "builtin";

}  // namespace

// ---- failures ------------------------------------------------------------------------------

void Shell::attempt(Result<void> phase) {
  if (!phase) fail(phase.error());
}

// The only shell of a job leaves it to its caller to log this.
void Shell::fail(const Error& why) {
  std::string message = has_siblings() ? fmt::format("{}{}", why.message, place("")) : why.message;
  if (!end_job({message, 1, job_.shell_rank}, kType)) {
    if (!why.is_logged) log_.log(Level::debug, "", "{}", why.message);
    return;
  }
  if (has_siblings()) {
    log_.log(Level::fatal, "", "{}", message);
  } else {
    failure_ = why;
  }
}

void Shell::raise(const plugin::Exception& exception) {
  bool fatal = exception.severity == 0;
  std::optional<int> code;
  if (exception.status) code = exception.status->job_code();
  std::string message = exception.message;
  // Builtin plugins name the place themselves.
  const plugin::Stack::Running* running = stack_.running();
  if (fatal && has_siblings() && running && running->plugin->origin() != kBuiltin) message += place("");
  if (!fatal) {
    group_->raise({exception.type, exception.severity, message, code, job_.shell_rank});
  } else if (!end_job({message, code, job_.shell_rank}, exception.type)) {
    // The first one is the reason; what follows is its consequence.
    log_.log(Level::debug, "", "{}: {}", exception.type, message);
    return;
  }
  log_.log(fatal ? Level::error : Level::warn, "", "{}: {}", exception.type, message);
}

void Shell::die(int exit_code, std::string_view component, std::string_view message) {
  std::string text(message);
  if (has_siblings()) text += place(component);
  log_.log(Level::fatal, component, "{}", text);
  end_job({text, exit_code, job_.shell_rank}, kType);
}

// False: it is being ended already.
bool Shell::end_job(const exits::Cause& cause, std::string_view type) {
  if (end_.raised(cause) != Action::end) return false;
  group_->raise({std::string(type), 0, cause.message, cause.code, cause.shell});
  end_tasks();
  return true;
}

// " (plugin 'x', shell.init, on node1)": where a plugin has failed. `named`: what names the plugin already.
std::string Shell::place(std::string_view named) const {
  std::string out;
  if (const plugin::Stack::Running* running = stack_.running()) {
    if (running->plugin->name() != named) out += fmt::format("plugin '{}', ", running->plugin->name());
    out += fmt::format("{}, ", *running->topic);
  }
  return fmt::format(" ({}{})", out, job_.resources.nodes[job_.shell_rank].on().substr(1));
}

// All shells get these in the same order, so they agree on which one ended the job, and with which code.
void Shell::on_exception(const group::Exception& exception) {
  Json context{{"type", exception.type}, {"severity", exception.severity}, {"note", exception.message}};
  if (Result<void> posted = post("exception", std::move(context)); !posted) {
    log_.log(Level::warn, "", "{}", posted.error().message);
  }
  if (exception.severity != 0) return;
  if (end_.ordered({exception.message, exception.exit_code, exception.origin}) != Action::end) return;
  log_.log(Level::debug, "", "shell {} ends the job: {}: {}", exception.origin, exception.type, exception.message);
  end_tasks();
}

void Shell::on_cut_off(const Error& why) {
  Action action = end_.cut_off(why.message);
  if (action != Action::kill) return;
  log_.log(Level::fatal, "", "cut off from the job's other shells: {}", why.message);
  kill_tasks(SIGKILL);
}

// ---- signals -------------------------------------------------------------------------------

// A launcher sends a signal for all tasks of the job, others for those of this shell.
exits::Work Shell::work_for(Signals::From from) const {
  using exits::Work;
  auto start = barriers_.find(kStartBarrier);
  if (start == barriers_.end() || !start->second) return Work::starting;
  if (has_siblings() ? leads() && all_.ranks().size() >= job_.tasks() : running_ == 0) return Work::over;
  bool for_all = from == Signals::From::launcher;
  return running_ > 0 || for_all ? Work::running : Work::elsewhere;
}

void Shell::on_signal(int signum, Signals::From from) {
  Action action = end_.signalled(signum, event::clock_now().count(), work_for(from));
  auto send = [&](int number) {
    if (from == Signals::From::launcher) return group_->signal(number, std::nullopt);
    kill_tasks(number);
  };
  bool is_interrupt = signum == SIGINT;
  switch (action) {
    case Action::nothing:
      if (is_interrupt) log_.log(Level::notice, "", "interrupt: no task of this shell runs");
      return;
    case Action::pass_on:
      if (is_interrupt) {
        log_.log(Level::notice, "", "interrupt: passed on to the tasks that run; a second one within {:g} s ends the job",
                 exits::JobEnd::kInterruptWindow);
      }
      return send(signum);
    case Action::end: {
      exits::Cause cause = exits::ended_by_signal(signum, job_.shell_rank);
      bool again = is_interrupt && running_ > 0;
      log_.log(Level::fatal, "", "{}", again ? "second interrupt: ending the job" : cause.message);
      end_job(cause, kType);
      return;
    }
    case Action::kill: log_.log(Level::notice, "", "interrupt: killing the tasks"); return send(SIGKILL);
  }
}

// ---- the end of the tasks ------------------------------------------------------------------

// Those that have ended by themselves until now are no victims. False: it was done before, for those that ran then.
bool Shell::end_tasks() {
  children().reap();
  for (const auto& task : tasks_) {
    if (task->state() == task::State::running) victims_.insert(task->rank());
  }
  return (running_ > 0 || !signalled_also_.empty()) && shutdown_->begin();
}

int Shell::exit_code(const exits::Outcomes& outcomes) const { return end_.code(outcomes, exits::Policy::max()); }

// The leader leaves its barrier only when it has what the others have put out.
void Shell::close_job() {
  group_->close_bulk();
  last_barrier(kExitBarrier);
}

// The end of run(): nobody leaves before all shells know how the job has ended, which the leader decides.
int Shell::leave_job() {
  bool has_run = barriers_.contains(kExitBarrier);
  if (!has_run) close_job();
  last_barrier(kEndBarrier);
  if (leads()) {
    // What has no record by now was never started.
    all_.add(value::Idset::range(0, static_cast<value::Idset::Id>(job_.tasks() - 1)), exits::Record::victim({}));
  }
  int local = exit_code(mine_);
  int code = leads() ? exit_code(all_) : local;
  auto post_exit = [&] { return has_run ? post("shell.exit", {{"exitcode", code}}) : Result<void>(); };
  if (leads()) {
    if (Result<void> posted = post_exit(); !posted) {
      log_.log(Level::error, "", "{}", posted.error().message);
      code = std::max(code, 1);
    }
  }
  if (auto agreed = leave(footing_, code)) end_.agreed(code = *agreed);
  if (!leads()) static_cast<void>(post_exit());  // it has no eventlog
  return config_.exit_local ? local : code;
}

}  // namespace nacre
