// SPDX-License-Identifier: Apache-2.0
#include "core/shell_ending.hpp"

#include <sys/resource.h>

#include "event/clock.hpp"
#include "exits/job_end.hpp"
#include "join/leaving.hpp"

namespace nacre::core {

ShellLauncherTie::~ShellLauncherTie() {
  process_.launcher_events.on_detach = nullptr;
  if (auto* output = host_.task_output()) output->redirect(nullptr);
}

void ShellLauncherTie::offer_output(plugin::TaskOutput& output) {
  if (at_start_ || outlives_) output.redirect(this);
}

void ShellLauncherTie::outlive_launcher() {
  outlives_ = true;
  if (auto* output = host_.task_output()) offer_output(*output);
}

bool ShellLauncherTie::gone() {
  if (is_detached()) return true;
  if (!outlives_ || !running_ || host_.ending()) return false;
  Result<void> detached = detach();
  if (detached) host_.log().log(Level::notice, "", "the job goes on without its launcher, which has gone");
  return detached.has_value();
}

void ShellLauncherTie::leave() {
  if (!can_leave() || is_detached()) return;
  Result<void> opened = process_.detachment->open();
  if (!opened) return report(opened.error());
  std::string id = host_.job().id.f58_plain();
  host_.log().log(Level::notice, "", "left job {}, which goes on: `nacre attach {}` shows it", id, id);
  static_cast<void>(detach());
}

Result<void> ShellLauncherTie::detach() {
  if (is_detached()) return {};
  if (at_start_ && process_.launch_stream && process_.launch_stream->has_hung_up())
    return Error{EPIPE, "the launcher has gone before it got the job's id"};
  join::Detachment& detachment = *process_.detachment;
  Result<void> taken = at_start_ ? Result<void>() : detachment.take_streams();
  if (!taken) {
    report(taken.error());
    return taken;
  }
  if (auto* output = host_.task_output()) output->redirect(this);
  if (process_.guard) process_.guard->detached(detachment.path());
  if (process_.launch_input) process_.launch_input->let_go();
  if (process_.launch_stream) process_.launch_stream->let_go();
  detachment.let_go();
  return {};
}

Result<void> ShellLauncherTie::take_over_input() {
  if (!process_.launch_input) process_.launch_input = TRY(join::LauncherInput::create(*process_.loop));
  input_.emplace(*process_.launch_input);
  return {};
}

// The launcher may still be there: only the stream to which writing has failed goes to the file.
bool ShellLauncherTie::closed() {
  if (!outlives_) return false;
  Result<void> opened = process_.detachment->open();
  if (!opened) report(opened.error());
  return opened.has_value();
}

void ShellLauncherTie::report(const Error& why) {
  host_.log().log(Level::error, "",
                  "the job cannot go on without its launcher: there is no file for its output: {}", why.message);
}

// The message may be lost as well: the job's entry has the number.
void ShellLauncherTie::lost(const Error& why, std::uint64_t bytes) {
  bool is_first = std::exchange(lost_, lost_ + bytes) == 0;
  if (!is_first) return;
  host_.log().log(Level::warn, "", "{}: {}: output is missing from here on; the job goes on",
                  process_.detachment->path(), why.message);
}

namespace {

using exits::Action;

constexpr std::string_view kType = "exec";        // type of an exception, as flux-shell raises them
constexpr std::string_view kTimeout = "timeout";  // type of one that a time limit raises, as Flux's managers use it
constexpr std::string_view kBuiltin = "builtin";

// " (plugin 'x', shell.init, on node1)": where a plugin has failed. `named`: a text that may already name the
// plugin.
std::string place(const job::Job& job, std::string_view named) {
  std::string out;
  const CallPage& page = CallPage::own();
  if (page.place().within_call()) {
    if (page.plugin() != named) out += fmt::format("plugin '{}', ", page.plugin());
    out += fmt::format("{}, ", page.topic());
  }
  std::string on = job.resources.nodes[job.shell_rank].on();
  return fmt::format(" ({}{})", out, on.empty() ? "here" : on.substr(1));
}

// In task.exec: the parent then reports that the task could not be started.
void fail_in_child(ChildsLine& line, std::string_view message) {
  const CallPage& page = CallPage::own();
  line.write(fmt::format("plugin '{}': {}: {}", page.plugin(), page.topic(), message));
}

}  // namespace

ShellEnding::ShellEnding(const Parts& parts) : of_(parts) {
  when_thrown([this](const Component* component, std::string_view what) { on_thrown(component, what); });
}

// ---- failures ------------------------------------------------------------------------------

// What shell.task-exit has of a task of another shell: all but its process id.
Result<void> ShellEnding::post_first_end() {
  if (!has_started_ || !first_end_) return {};
  for (const auto& task : of_.tasks.all()) {
    if (task->rank() == first_end_->rank && task->state() == task::State::exited)
      return of_.events.post("shell.task-exit", task->info());
  }
  std::uint32_t shell = TRY(job().taskmap.node_of(first_end_->rank));
  std::vector<std::uint32_t> ranks = job().taskmap.ranks_on(shell).ids();
  value::WaitStatus status = *first_end_->record.status();
  Json context{{"localid", std::find(ranks.begin(), ranks.end(), first_end_->rank) - ranks.begin()},
               {"rank", first_end_->rank},
               {"state", "Exited"},
               {"wait_status", status.raw()},
               {"signaled", status.signal()}};
  if (status.is_exit()) context["exitcode"] = status.exit_code();
  return of_.events.post("shell.task-exit", std::move(context));
}

// A job's only shell returns the error, and its caller logs it.
void ShellEnding::fail(const Error& why) {
  if (why.is_logged) return;
  exits::Cause cause{why.message, 1, job().shell_rank};
  if (has_siblings()) cause.message += place(job(), "");
  if (of_.grow.joining().is_joining()) return fail_to_join(cause);
  if (end_job(cause, {}) && !has_siblings()) failure_ = why;
}

// For a plugin that only tells what the job does, each exception is logged once: a timer may throw again and again.
void ShellEnding::on_thrown(const Component* component, std::string_view what) {
  if (component == nullptr) return fail(invalid(fmt::format("{} (job {})", what, job().f58())));
  if (component->is_vital)
    return fail(invalid(fmt::format("plugin '{}': {} (job {})", component->name, what, job().f58())));
  if (!thrown_.insert(fmt::format("{}: {}", component->name, what)).second) return;
  log(Level::error, "", "plugin '{}': {}; the job goes on, without what this plugin would do", component->name,
      what);
}

void ShellEnding::raise(const plugin::RaisedException& exception) {
  std::optional<int> code;
  if (exception.status) code = exception.status->job_code();
  exits::Cause cause{exception.message,          code,
                     job().shell_rank,           exception.task,
                     exception.type == kTimeout, exits::class_of_type(exception.type)};
  // Builtin plugins name the place themselves.
  const plugin::Stack::Running* running = of_.host.stack().running();
  if (has_siblings() && running != nullptr && running->plugin->origin() != kBuiltin)
    cause.message += place(job(), "");
  bool fatal = exception.severity == 0;
  if (ChildsLine* line = of_.tasks.childs_line()) return fatal ? fail_in_child(*line, exception.message) : void();
  if (fatal && of_.grow.joining().is_joining()) return fail_to_join(cause);
  if (fatal && of_.shrink.leaves()) return log_leaving("", cause.message);
  if (fatal && !end_job(cause, exception.type)) return;
  if (!fatal)
    of_.process.group->raise(
        {exception.type, exception.severity, cause.message, code, job().shell_rank, false, exception.task});
  if (fatal && has_siblings()) return;  // logged once for all shells, see on_exception()
  log(fatal ? Level::error : Level::warn, "", "{}: {}", exception.type, cause.message);
}

void ShellEnding::die(int exit_code, std::string_view component, std::string_view message) {
  if (ChildsLine* line = of_.tasks.childs_line()) return fail_in_child(*line, message);
  if (of_.shrink.leaves()) return log_leaving(component, message);
  if (!has_siblings()) {
    bool is_first = end_job({std::string(message), exit_code, job().shell_rank}, {});
    if (is_first) log(Level::fatal, component, "{}", message);
    return;
  }
  std::string prefix = component.empty() ? "" : fmt::format("{}: ", component);
  exits::Cause cause{fmt::format("{}{}{}", prefix, message, place(job(), component)), exit_code, job().shell_rank};
  of_.grow.joining().is_joining() ? fail_to_join(cause) : static_cast<void>(end_job(cause, {}));
}

// The job goes on without this shell: the leader takes it out again.
void ShellEnding::fail_to_join(const exits::Cause& cause) {
  if (end().raised(cause) != Action::end) return;
  of_.grow.joining().failed(cause.message);
  end_tasks();
  of_.shells.begin();
}

void ShellEnding::log_leaving(std::string_view component, std::string_view message) const {
  log(Level::warn, component, "{}; this shell leaves the job, which goes on", message);
}

// `type`: that of the exception; empty: the shell itself has failed. False: the job is being ended already, so this
// failure is a consequence.
bool ShellEnding::end_job(const exits::Cause& cause, std::string_view type) {
  if (end().raised(cause) != Action::end) {
    // What fails behind the end, as to write the last event of it, changes the exit code no more.
    bool is_late = end().is_agreed() && !end().is_ending();
    log(is_late ? Level::warn : Level::debug, "", "{}", cause.message);
    return false;
  }
  bool of_shell = type.empty();
  of_.process.group->raise(
      {std::string(of_shell ? kType : type), 0, cause.message, cause.code, cause.shell, of_shell, cause.task});
  end_tasks();
  return true;
}

// All shells get exceptions in the same order, so they agree on the one that ended the job, and on the code.
void ShellEnding::on_exception(const group::JobException& exception) {
  Json context{{"type", exception.type}, {"severity", exception.severity}, {"note", exception.message}};
  if (Result<void> posted = of_.events.post("exception", std::move(context)); !posted) {
    log(Level::warn, "", "{}", posted.error().message);
  }
  if (exception.severity != 0) return;
  bool is_cause = !end().is_decided();
  Action action = end().ordered({exception.message, exception.exit_code, exception.origin, exception.task,
                                 exception.type == kTimeout, exits::class_of_type(exception.type)});
  if (is_cause && has_siblings()) join::log_cause(of_.host.log(), exception, of_.shells.leads());
  if (action == Action::end) end_tasks();
}

void ShellEnding::on_cut_off(const Error& why) {
  of_.exchange.messages().cut_off();
  Action action = end().cut_off(why.message);
  if (action != Action::kill) return;
  log(Level::fatal, "", "cut off from the job's other shells: {}", why.message);
  if (const auto& cause = end().cause(); cause && cause->message != why.message)
    log(Level::fatal, "", "{}", cause->message);
  end_tasks();  // they become victims
  kill_tasks(SIGKILL);
}

// ---- signals -------------------------------------------------------------------------------

// A launcher sends a signal for all tasks of the job; other senders mean those of this shell.
exits::Work ShellEnding::work_for(join::Signals::From from) const {
  exits::TaskProgress tasks;
  tasks.started = of_.shells.barriers().has_passed(join::kStartBarrier);
  bool has_own = of_.tasks.running() > 0 || !of_.restart.is_idle() || of_.tasks.may_start_next();
  tasks.over = has_siblings() ? of_.shells.leads() && of_.shells.all_tasks().left() == 0 : !has_own;
  tasks.running = has_own;
  return exits::work_for(tasks, from == join::Signals::From::launcher);
}

// The terminal of a job that goes on without it has hung up.
void ShellEnding::on_signal(int signum, join::Signals::From from) {
  if (signum == SIGHUP && of_.launcher && of_.launcher->gone()) return;
  exits::Work work = work_for(from);
  Action action = end().signalled(signum, event::clock_now().count(), work);
  auto send = [&](int number) {
    if (number != SIGKILL && of_.process.signals->is_repeated(number)) return;
    of_.process.signals->note_sent(number);
    if (from == join::Signals::From::launcher) return of_.process.group->signal(number, std::nullopt);
    end().sent_to_tasks(number);
    kill_tasks(number);
    of_.tasks.leave_out(number, std::nullopt);
  };
  bool is_interrupt = signum == SIGINT;
  switch (action) {
    case Action::nothing:
      if (is_interrupt) log(Level::notice, "", "interrupt: no task of this shell runs");
      return;
    case Action::pass_on:
      if (is_interrupt) {
        std::size_t count =
            has_siblings() && of_.shells.leads() ? of_.shells.all_tasks().left() : of_.tasks.running();
        bool may_leave =
            of_.config.may_be_left && from == join::Signals::From::launcher && of_.launcher->can_leave();
        log(Level::notice, "", "{}", exits::JobEnd::interrupt_text(count, may_leave));
      }
      return send(signum);
    case Action::end: {
      exits::Cause cause = exits::ended_by_signal(signum, job().shell_rank);
      bool again = is_interrupt && (work == exits::Work::running || work == exits::Work::elsewhere);
      if (again) cause.message = "second interrupt: ending the job";
      if (!has_siblings()) log(Level::fatal, "", "{}", cause.message);
      end_job(cause, {});
      return;
    }
    case Action::kill:
      log(Level::notice, "", "interrupt: killing the tasks");
      if (of_.shells.leads()) of_.process.group->give_up_silent();
      return send(SIGKILL);
  }
}

// ---- the end of the tasks, and of the shell ------------------------------------------------

// Ends the tasks, and all that gets signals with them (Host::signal_also).
void ShellEnding::end_tasks() {
  of_.tasks.unkillable().look_at_all();
  bool over_time = end().cause() && end().cause()->over_time;
  of_.tasks.end({!signalled_also_.empty(), over_time});
}

void ShellEnding::kill_tasks(int signum) {
  of_.tasks.kill(signum);
  signalled_also_.call(signum);
}

// Not all tasks are known here, so the code is the largest of this shell's tasks.
int ShellEnding::own_code() const {
  exits::Policy policy(exits::Policy::Kind::max, 0, of_.host.exit_policy().ok());
  policy.set_classes(of_.host.exit_policy().classes());
  return end().code(of_.tasks.outcomes(), policy);
}

// No policy applies to a plan: none of its tasks was meant to run.
int ShellEnding::job_code(const exits::Outcomes& all) const {
  return of_.config.explain ? own_code() : end().code(all, of_.host.exit_policy());
}

// The leader passes this barrier only when it has all output of the other shells.
void ShellEnding::close_job() {
  of_.process.timeline.add(timeline::Kind::enters, join::kExitBarrier);
  of_.process.timeline.closing();
  of_.process.group->close_bulk();
  // whether they leave is not decided any more
  of_.shells.staying(value::Idset::range(0, job().shells() - 1));
  of_.shells.decide_losses();
  of_.shrink.put_all();
  used_ = WaitedUsage::of(of_.tasks.all());
  used_.cpu = of_.shells.barriers().sum_last(join::kExitBarrier, used_.cpu).value_or(used_.cpu);
  gave_none_ = of_.shells.roster().gone();
  of_.shrink.job_over();
}

// The end of run(): no shell leaves before all know how the job has ended, which the leader decides.
int ShellEnding::leave_job() {
  bool has_run = of_.shells.barriers().has_entered(join::kExitBarrier);
  if (!has_run) close_job();
  used_.largest = of_.shells.barriers().max_last(join::kEndBarrier, used_.largest).value_or(used_.largest);
  int local = own_code();
  int code = of_.shells.leads() ? decide_code(has_run) : local;
  const bool led = of_.shells.leads();
  leaves_ = has_run;
  auto agreed = join::leave(of_.process, code);
  const bool ends_own = led && of_.process.joins_late;  // its own allocation, and so itself: the last thing it does
  if (!ends_own) of_.grow.end_allocations();
  if (agreed) end().agreed(*agreed);
  // This shell may have been cut off while leaving
  code = of_.shells.leads() ? job_code(of_.shells.all_tasks().outcomes()) : own_code();
  if (!agreed) local = code;
  if (!led && has_run) static_cast<void>(of_.events.post("shell.exit", {{"exitcode", code}}));
  if (of_.shells.leads()) report_end(code);

  // plugins' futures get the last event only now
  if (of_.events.of_job().is_followed()) of_.host.loop().poll();
  if (ends_own) of_.grow.end_allocations();
  return of_.config.exit_local ? local : code;
}

// On the leader.
int ShellEnding::decide_code(bool has_run) {
  const int code = job_code(of_.shells.all_tasks().final_outcomes());
  if (!has_run) return code;
  Result<void> posted = of_.events.post("shell.exit", {{"exitcode", code}});
  if (posted) return code;
  log(Level::error, "", "{}", posted.error().message);
  return std::max(code, 1);
}

void ShellEnding::take_over() {
  if (leaves_) of_.process.group->end_job(decide_code(false));
}

// Waits until plugins release the holds that they have taken for it.
void ShellEnding::report_end(int code) {
  if (of_.config.explain || ended_.empty()) return;
  const auto before = of_.holds.counts();  // some may be released meanwhile
  const exits::Outcomes& outcomes = of_.shells.all_tasks().outcomes();
  Json summary = exits::summary(end(), outcomes, of_.host.exit_policy(), code);
  summary["used"] = used_.json(job(), outcomes, gave_none_);
  ended_.call(summary);
  auto was_there = [&](const auto& each) {
    const auto found = before.find(each.first);
    return found != before.end() && found->second >= each.second;
  };
  of_.host.loop().run_until([&] {
    const auto& now = of_.holds.counts();
    return std::all_of(now.begin(), now.end(), was_there) || end().is_killed();
  });
}

// ---- waited usage -----------------------------------------------------------------------

namespace {

constexpr std::int64_t kMicroseconds = 1'000'000;  // of a second
constexpr unsigned kKibibyte = 10;

std::int64_t microseconds(const timeval& time) { return std::int64_t{time.tv_sec} * kMicroseconds + time.tv_usec; }

// The value of getrusage(2) includes what this process was before its own execve(2), so it is never too small. The
// exact value is in /proc; to read it costs each job as much as ten system calls.
bool is_above_own_peak(std::int64_t kibibytes) {
  rusage own{};
  return ::getrusage(RUSAGE_SELF, &own) == 0 && kibibytes > own.ru_maxrss;
}

}  // namespace

WaitedUsage WaitedUsage::of(std::span<const std::unique_ptr<task::Task>> tasks) {
  WaitedUsage out;
  std::int64_t most = 0;
  for (const auto& task : tasks) {
    if (task->state() != task::State::exited) continue;
    const rusage& usage = task->usage();
    out.cpu += microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    most = std::max<std::int64_t>(most, usage.ru_maxrss);
  }
  if (most > 0) out.largest = 2 * most + (is_above_own_peak(most) ? 1 : 0);
  return out;
}

Json WaitedUsage::json(const job::Job& job, const exits::Outcomes& outcomes, const value::Idset& gone) const {
  value::Idset missing;
  for (auto shell : gone.ids()) {
    if (shell < job.shells()) missing = missing | job.taskmap.ranks_on(shell);
  }
  value::Idset ended;
  for (const auto& [record, ranks] : outcomes.classes()) {
    if (record.status() && record.kind() != exits::Record::Kind::not_started) ended = ended | ranks;
  }
  Json out{{"tasks", job.tasks()},
           {"ended", (ended - missing).size()},
           {"cpu", static_cast<double>(cpu) / static_cast<double>(kMicroseconds)}};
  if (largest > 0) out["maxrss"] = largest / 2 << kKibibyte;
  if (largest > 0 && largest % 2 == 0) out["maxrss_is_bound"] = true;
  if (!missing.empty()) out["missing"] = missing.str();
  return out;
}

}  // namespace nacre::core
