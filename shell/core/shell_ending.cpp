// SPDX-License-Identifier: Apache-2.0
#include "core/shell_ending.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/current_call.hpp"
#include "base/guarded.hpp"
#include "base/json.hpp"
#include "event/clock.hpp"
#include "exits/job_end.hpp"
#include "join/leaving.hpp"

namespace nacre::core {
namespace {

using exits::Action;

constexpr std::string_view kType = "exec";        // type of an exception, as flux-shell raises them
constexpr std::string_view kTimeout = "timeout";  // type of one that a time limit raises, as Flux's managers use it
constexpr std::string_view kBuiltin = "builtin";

// " (plugin 'x', shell.init, on node1)": where a plugin has failed. `named`: a text that may name the plugin
// already.
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

ShellEnding::ShellEnding(join::ShellProcess& process, boot::Identity&& identity, job::Job&& job,
                         job::Options&& options, ShellConfig&& config, Log& log)
    : ShellHost(process, identity.standalone, std::move(job), std::move(options), std::move(config), log),
      end_(process.end),
      tasks_(*this, process.group.get()),
      shells_(*this, process),
      shrink_(*this, process.group.get(), shells_, tasks_, process.end),
      restart_(*this, job_, shells_, shrink_, tasks_, process.end),
      replace_(*this, job_, shells_, shrink_, tasks_, restart_),
      grow_(*this, job_, process, shells_, shrink_, restart_) {
  when_thrown([this](const Component* component, std::string_view what) { on_thrown(component, what); });
}

ShellEnding::~ShellEnding() { when_thrown(nullptr); }

// ---- failures ------------------------------------------------------------------------------

// What shell.task-exit has of a task of another shell: all but its process id.
Result<void> ShellEnding::post_first_end() {
  if (!has_started_ || !first_end_) return {};
  for (const auto& task : tasks_.all()) {
    if (task->rank() == first_end_->rank && task->state() == task::State::exited)
      return post("shell.task-exit", task->info());
  }
  std::uint32_t shell = TRY(job_.taskmap.node_of(first_end_->rank));
  std::vector<std::uint32_t> ranks = job_.taskmap.ranks_on(shell).ids();
  value::WaitStatus status = *first_end_->record.status();
  Json context{{"localid", std::find(ranks.begin(), ranks.end(), first_end_->rank) - ranks.begin()},
               {"rank", first_end_->rank},
               {"state", "Exited"},
               {"wait_status", status.raw()},
               {"signaled", status.signal()}};
  if (status.is_exit()) context["exitcode"] = status.exit_code();
  return post("shell.task-exit", std::move(context));
}

// A job's only shell returns the error, and its caller logs it.
void ShellEnding::fail(const Error& why) {
  if (why.is_logged) return;
  exits::Cause cause{why.message, 1, job_.shell_rank};
  if (has_siblings()) cause.message += place(job_, "");
  if (grow_.joining().is_joining()) return fail_to_join(cause);
  if (end_job(cause, {}) && !has_siblings()) failure_ = why;
}

// Of a plugin that only tells what the job does, each is told once: a timer may throw again and again.
void ShellEnding::on_thrown(const Component* component, std::string_view what) {
  if (component == nullptr) return fail(invalid(fmt::format("{} (job {})", what, job_.f58())));
  if (component->is_vital)
    return fail(invalid(fmt::format("plugin '{}': {} (job {})", component->name, what, job_.f58())));
  if (!thrown_.insert(fmt::format("{}: {}", component->name, what)).second) return;
  log_.log(Level::error, "", "plugin '{}': {}; the job goes on, without what this plugin would do", component->name,
           what);
}

void ShellEnding::raise(const plugin::RaisedException& exception) {
  std::optional<int> code;
  if (exception.status) code = exception.status->job_code();
  exits::Cause cause{exception.message, code, job_.shell_rank, exception.task, exception.type == kTimeout};
  // Builtin plugins name the place themselves.
  const plugin::Stack::Running* running = stack_.running();
  if (has_siblings() && running != nullptr && running->plugin->origin() != kBuiltin)
    cause.message += place(job_, "");
  bool fatal = exception.severity == 0;
  if (ChildsLine* line = tasks_.childs_line()) return fatal ? fail_in_child(*line, exception.message) : void();
  if (fatal && grow_.joining().is_joining()) return fail_to_join(cause);
  if (fatal && shrink_.leaves()) return log_leaving("", cause.message);
  if (fatal && !end_job(cause, exception.type)) return;
  if (!fatal)
    group_->raise(
        {exception.type, exception.severity, cause.message, code, job_.shell_rank, false, exception.task});
  if (fatal && has_siblings()) return;  // logged once for all shells, see on_exception()
  log_.log(fatal ? Level::error : Level::warn, "", "{}: {}", exception.type, cause.message);
}

void ShellEnding::die(int exit_code, std::string_view component, std::string_view message) {
  if (ChildsLine* line = tasks_.childs_line()) return fail_in_child(*line, message);
  if (shrink_.leaves()) return log_leaving(component, message);
  if (!has_siblings()) {
    bool is_first = end_job({std::string(message), exit_code, job_.shell_rank}, {});
    if (is_first) log_.log(Level::fatal, component, "{}", message);
    return;
  }
  std::string prefix = component.empty() ? "" : fmt::format("{}: ", component);
  exits::Cause cause{fmt::format("{}{}{}", prefix, message, place(job_, component)), exit_code, job_.shell_rank};
  grow_.joining().is_joining() ? fail_to_join(cause) : static_cast<void>(end_job(cause, {}));
}

// The job goes on without this shell, which the leader takes out of it again.
void ShellEnding::fail_to_join(const exits::Cause& cause) {
  if (end_.raised(cause) != Action::end) return;
  grow_.joining().failed(cause.message);
  end_tasks();
  shells_.begin();
}

void ShellEnding::log_leaving(std::string_view component, std::string_view message) {
  log_.log(Level::warn, component, "{}; this shell leaves the job, which goes on", message);
}

// `type`: of an exception; empty: the shell itself has failed. False: the job is being ended already, so this is a
// consequence.
bool ShellEnding::end_job(const exits::Cause& cause, std::string_view type) {
  if (end_.raised(cause) != Action::end) {
    log_.log(Level::debug, "", "{}", cause.message);
    return false;
  }
  bool of_shell = type.empty();
  group_->raise(
      {std::string(of_shell ? kType : type), 0, cause.message, cause.code, cause.shell, of_shell, cause.task});
  end_tasks();
  return true;
}

// All shells get these in the same order, so they agree on the one that ended the job, and on the code.
void ShellEnding::on_exception(const group::JobException& exception) {
  Json context{{"type", exception.type}, {"severity", exception.severity}, {"note", exception.message}};
  if (Result<void> posted = post("exception", std::move(context)); !posted) {
    log_.log(Level::warn, "", "{}", posted.error().message);
  }
  if (exception.severity != 0) return;
  bool is_cause = !end_.is_decided();
  Action action = end_.ordered(
      {exception.message, exception.exit_code, exception.origin, exception.task, exception.type == kTimeout});
  if (is_cause && has_siblings()) join::log_cause(log_, exception, shells_.leads());
  if (action == Action::end) end_tasks();
}

void ShellEnding::on_cut_off(const Error& why) {
  shell_messages_.cut_off();
  Action action = end_.cut_off(why.message);
  if (action != Action::kill) return;
  log_.log(Level::fatal, "", "cut off from the job's other shells: {}", why.message);
  if (const auto& cause = end_.cause(); cause && cause->message != why.message)
    log_.log(Level::fatal, "", "{}", cause->message);
  end_tasks();  // they become victims
  kill_tasks(SIGKILL);
}

// ---- signals -------------------------------------------------------------------------------

// A launcher sends a signal for all tasks of the job; other senders mean those of this shell.
exits::Work ShellEnding::work_for(join::Signals::From from) const {
  exits::TaskProgress tasks;
  tasks.started = shells_.barriers().has_passed(join::kStartBarrier);
  bool has_own = tasks_.running() > 0 || !restart_.is_idle();
  tasks.over = has_siblings() ? shells_.leads() && shells_.all_tasks().left() == 0 : !has_own;
  tasks.running = has_own;
  return exits::work_for(tasks, from == join::Signals::From::launcher);
}

// The terminal of a job that goes on without it hangs up.
void ShellEnding::on_signal(int signum, join::Signals::From from) {
  if (signum == SIGHUP && launched_ && launched_->gone()) return;
  exits::Work work = work_for(from);
  Action action = end_.signalled(signum, event::clock_now().count(), work);
  auto send = [&](int number) {
    if (from == join::Signals::From::launcher) return group_->signal(number, std::nullopt);
    end_.sent_to_tasks(number);
    kill_tasks(number);
  };
  bool is_interrupt = signum == SIGINT;
  switch (action) {
    case Action::nothing:
      if (is_interrupt) log_.log(Level::notice, "", "interrupt: no task of this shell runs");
      return;
    case Action::pass_on:
      if (is_interrupt) {
        std::size_t count = has_siblings() && shells_.leads() ? shells_.all_tasks().left() : tasks_.running();
        bool may_leave = config_.may_be_left && from == join::Signals::From::launcher && launched_->can_leave();
        log_.log(Level::notice, "", "{}", exits::JobEnd::interrupt_text(count, may_leave));
      }
      return send(signum);
    case Action::end: {
      exits::Cause cause = exits::ended_by_signal(signum, job_.shell_rank);
      bool again = is_interrupt && (work == exits::Work::running || work == exits::Work::elsewhere);
      if (again) cause.message = "second interrupt: ending the job";
      if (!has_siblings()) log_.log(Level::fatal, "", "{}", cause.message);
      end_job(cause, {});
      return;
    }
    case Action::kill:
      log_.log(Level::notice, "", "interrupt: killing the tasks");
      if (shells_.leads()) group_->give_up_silent();
      return send(SIGKILL);
  }
}

// ---- the end of the tasks, and of the shell ------------------------------------------------

// Ends all that gets signals for the tasks (Host::signal_also) with them.
void ShellEnding::end_tasks() {
  tasks_.unkillable().look_at_all();
  bool over_time = end_.cause() && end_.cause()->over_time;
  tasks_.end({!signalled_also_.empty(), over_time});
}

void ShellEnding::kill_tasks(int signum) {
  tasks_.kill(signum);
  signalled_also_.call(signum);
}

// The tasks are not all known here, so it is the largest code of this shell's.
int ShellEnding::own_code() const {
  return end_.code(tasks_.outcomes(), exits::Policy(exits::Policy::Kind::max, 0, exit_policy_.ok()));
}

// No policy applies to a plan, of which no task was meant to run.
int ShellEnding::job_code(const exits::Outcomes& all) const {
  return config_.explain ? own_code() : end_.code(all, exit_policy_);
}

// The leader passes its barrier only when it has all that the others have put out.
void ShellEnding::close_job() {
  process_.timeline.add(timeline::Kind::enters, join::kExitBarrier);
  process_.timeline.closing();
  group_->close_bulk();
  shells_.decide_losses();
  shrink_.put_all();
  used_ = WaitedUsage::of(tasks_.all());
  used_.cpu = shells_.barriers().sum_last(join::kExitBarrier, used_.cpu).value_or(used_.cpu);
  gave_none_ = shells_.roster().gone();
  shrink_.job_over();
}

// The end of run(): no shell leaves before all know how the job has ended, which the leader decides.
int ShellEnding::leave_job() {
  bool has_run = shells_.barriers().has_entered(join::kExitBarrier);
  if (!has_run) close_job();
  used_.largest = shells_.barriers().max_last(join::kEndBarrier, used_.largest).value_or(used_.largest);
  int local = own_code();
  int code = shells_.leads() ? job_code(shells_.all_tasks().final_outcomes()) : local;
  auto post_exit = [&] { return has_run ? post("shell.exit", {{"exitcode", code}}) : Result<void>(); };
  if (shells_.leads()) {
    if (Result<void> posted = post_exit(); !posted) {
      log_.log(Level::error, "", "{}", posted.error().message);
      code = std::max(code, 1);
    }
  }
  auto agreed = join::leave(process_, code);
  grow_.end_allocations();
  if (agreed) end_.agreed(*agreed);
  // This shell may have been cut off while leaving
  code = shells_.leads() ? job_code(shells_.all_tasks().outcomes()) : own_code();
  if (!agreed) local = code;
  if (shells_.leads())
    report_end(code);
  else
    static_cast<void>(post_exit());  // only the leader has an eventlog
  return config_.exit_local ? local : code;
}

// Waits until plugins release their holds.
void ShellEnding::report_end(int code) {
  if (config_.explain || ended_.empty()) return;
  auto before = holds_;
  const exits::Outcomes& outcomes = shells_.all_tasks().outcomes();
  Json summary = exits::summary(end_, outcomes, exit_policy_, code);
  summary["used"] = used_.json(job_, outcomes, gave_none_);
  ended_.call(summary);
  loop().run_until([&] { return holds_ == before || end_.is_killed(); });
}

// ---- shell host -------------------------------------------------------------------------
//
// The shell as its plugins see it.

namespace {

std::string own_host_name() {
  utsname names{};
  ::uname(&names);
  return names.nodename;
}

template <typename Holds>
int add_to(Holds& holds, std::string_view name) {
  auto it = holds.find(name);
  if (it == holds.end()) it = holds.emplace(std::string(name), 0).first;
  return ++it->second;
}

template <typename Holds>
Result<void> take_from(Holds& holds, std::string_view name) {
  auto it = holds.find(name);
  if (it == holds.end()) return Error{ENOENT, fmt::format("no completion reference '{}'", name)};
  if (--it->second == 0) holds.erase(it);
  return {};
}

}  // namespace

ShellHost::ShellHost(join::ShellProcess& process, bool standalone, job::Job&& job, job::Options&& options,
                     ShellConfig&& config, Log& log)
    : process_(process),
      group_(process.group.get()),
      log_(log),
      config_(std::move(config)),
      standalone_(standalone),
      job_(std::move(job)),
      options_(std::move(options)),
      shell_messages_(job_.shell_rank, job_.shells(),
                      [this](std::string_view topic, std::string_view bytes) { return announce(topic, bytes); }) {
  if (!has_siblings() && group_->bulk() == nullptr) shell_messages_.cut_off();
  if (process.detachment) launched_.emplace(*this, process, config_.detaches);
  for (const auto& [name, value] : job_.spec.environment) environment_.set(name, value);
  job::set_job_variables(environment_, job_, "");
  // It came from the host where the job was submitted.
  if (environment_.get("HOSTNAME")) environment_.set("HOSTNAME", own_host_name());
}

void ShellHost::offer_output(plugin::TaskOutput* output) {
  task_output_ = output;
  if (output != nullptr && launched_) launched_->offer_output(*output);
}

Json ShellHost::info() const {
  return Json{{"jobid", job_.id.value()},
              {"instance_owner", ::getuid()},
              {"rank", job_.shell_rank},
              {"size", job_.shells()},
              {"ntasks", job_.tasks()},
              {"service", fmt::format("{}-shell-{}", ::getuid(), job_.f58())},
              {"options", {{"verbose", config_.verbose > 0}, {"standalone", standalone_}}},
              {"jobspec", job_.spec.document},
              {"R", taken_document(job_.resources)}};
}

plugin::Registration ShellHost::signal_also(std::function<void(int)> processes) {
  return signalled_also_.add(std::move(processes));
}

int ShellHost::hold(std::string_view name) {
  int count = add_to(holds_, name);
  if (count == 1) process_.timeline.add(timeline::Kind::end_hold_begins, name);
  return count;
}

int ShellHost::hold_start(std::string_view name) {
  int count = add_to(start_holds_, name);
  if (count == 1) process_.timeline.add(timeline::Kind::hold_begins, name);
  return count;
}

Result<void> ShellHost::release(std::string_view name) {
  CHECK_OK(take_from(holds_, name));
  if (process_.timeline.is_on() && holds_.find(name) == holds_.end())
    process_.timeline.add(timeline::Kind::end_hold_ends, name);
  return {};
}

Result<void> ShellHost::release_start(std::string_view name) {
  CHECK_OK(take_from(start_holds_, name));
  if (process_.timeline.is_on() && start_holds_.find(name) == start_holds_.end())
    process_.timeline.add(timeline::Kind::hold_ends, name);
  return {};
}

void ShellHost::add_event_context(std::string_view event, const Json& members) {
  auto it = event_context_.find(event);
  if (it == event_context_.end()) it = event_context_.emplace(std::string(event), Json::object()).first;
  if (members.is_object()) it->second.update(members);
}

plugin::Registration ShellHost::gather(std::string_view name, std::string mine, WhenGathered done) {
  auto pending = gathers_.add(std::move(done));
  group_->gather(name, std::move(mine), std::move(pending.receive));
  return std::move(pending.registration);
}

plugin::Registration ShellHost::gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                             WhenGathered done) {
  auto pending = gathers_.add(std::move(done));
  group_->gather_up_to(last, name, std::move(mine), std::move(pending.receive));
  return std::move(pending.registration);
}

std::uint32_t ShellHost::last_with_tasks() const {
  std::uint32_t last = job_.shells() - 1;
  while (last > 0 && job_.taskmap.ranks_on(last).empty()) --last;
  return group_->last_come_with(last);
}

Result<void> ShellHost::announce(std::string_view topic, std::string_view bytes) {
  return group_->announce(topic, bytes);
}

plugin::Registration ShellHost::on_announcement(Receive receive) { return announced_to_.add(std::move(receive)); }

plugin::Registration ShellHost::exec(value::ExecOrder order, WhenOrdered done) {
  auto pending = orders_.add(std::move(done));
  group_->exec(std::move(order), std::move(pending.receive));
  return std::move(pending.registration);
}

plugin::Registration ShellHost::on_exec(std::function<void(const value::ExecShare&)> receive) {
  return ordered_to_.add(std::move(receive));
}

// A plan that is only printed leaves no record.
Result<void> ShellHost::open_record() {
  bool runs = !config_.explain && !config_.explain_plugins;
  if (auto& directory = config_.record_directory; directory && runs) {
    if (::mkdir(directory->c_str(), 0777) < 0 && errno != EEXIST) {
      return system_error(errno, "--record-dir: " + *directory);
    }
    std::error_code failed;
    *directory = std::filesystem::absolute(*directory, failed).native();
    if (failed) return system_error(failed.value(), "cannot find the working directory");
    if (!config_.eventlog) config_.eventlog = *directory + "/guest.exec.eventlog";
  }
  bool records = job_.shell_rank == 0 || !has_siblings();
  if (config_.eventlog && records) eventlog_ = TRY(group::EventLog::create(*config_.eventlog));
  return {};
}

Result<void> ShellHost::post(std::string_view event, Json context) {
  auto added = event_context_.find(event);
  if (added != event_context_.end()) context.update(added->second);
  double now = event::wall_clock();
  if (eventlog_) {
    Result<void> written = eventlog_->append(now, event, context);
    if (!written) eventlog_.reset();  // the error is logged once
    CHECK_OK(std::move(written));
  }
  events_.add({{"timestamp", now}, {"name", event}, {"context", std::move(context)}});
  return {};
}

// ---- shell launched ---------------------------------------------------------------------

ShellLaunched::~ShellLaunched() {
  process_.launched_by.on_detach = nullptr;
  if (auto* output = host_.task_output()) output->redirect(nullptr);
}

void ShellLaunched::offer_output(plugin::TaskOutput& output) {
  if (at_start_ || outlives_) output.redirect(this);
}

void ShellLaunched::outlive_launcher() {
  outlives_ = true;
  if (auto* output = host_.task_output()) offer_output(*output);
}

bool ShellLaunched::gone() {
  if (is_detached()) return true;
  if (!outlives_ || !running_ || host_.ending()) return false;
  Result<void> detached = detach();
  if (detached) host_.log().log(Level::notice, "", "the job goes on without its launcher, which has gone");
  return detached.has_value();
}

void ShellLaunched::leave() {
  if (!can_leave() || is_detached()) return;
  Result<void> opened = process_.detachment->open();
  if (!opened) return report(opened.error());
  std::string id = host_.job().id.f58_plain();
  host_.log().log(Level::notice, "", "left job {}, which goes on: `nacre attach {}` shows it", id, id);
  static_cast<void>(detach());
}

Result<void> ShellLaunched::detach() {
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

// The launcher may still be there: only the place to which writing has failed goes to the file.
bool ShellLaunched::closed() {
  if (!outlives_) return false;
  Result<void> opened = process_.detachment->open();
  if (!opened) report(opened.error());
  return opened.has_value();
}

void ShellLaunched::report(const Error& why) {
  host_.log().log(Level::error, "",
                  "the job cannot go on without its launcher: there is no file for its output: {}", why.message);
}

// The message may be lost as well: the job's entry has the number.
void ShellLaunched::lost(const Error& why, std::uint64_t bytes) {
  bool is_first = std::exchange(lost_, lost_ + bytes) == 0;
  if (!is_first) return;
  host_.log().log(Level::warn, "", "{}: {}: output is missing from here on; the job goes on",
                  process_.detachment->path(), why.message);
}

// ---- waited usage -----------------------------------------------------------------------

namespace {

constexpr std::int64_t kMicroseconds = 1'000'000;  // of a second
constexpr unsigned kKibibyte = 10;

std::int64_t microseconds(const timeval& time) { return std::int64_t{time.tv_sec} * kMicroseconds + time.tv_usec; }

// getrusage(2) has also what this process was before its own execve(2): so its value is never too small. The exact
// one is in /proc, and costs each job as much as ten system calls.
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
