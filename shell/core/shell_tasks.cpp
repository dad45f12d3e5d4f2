// SPDX-License-Identifier: Apache-2.0
#include "core/shell_tasks.hpp"

#include <sys/wait.h>

#include "elastic/recovery.hpp"
#include "event/clock.hpp"
#include "job/options.hpp"
#include "plugin/crash.hpp"

namespace nacre::core {

void TaskWindow::limit(std::uint32_t slots) {
  slots_ = slots;
  free_ = value::Idset::range(0, slots - 1);
}

bool TaskWindow::is_to_start(const task::Task& task) const {
  return task.state() == task::State::init && !left_out_.contains(static_cast<Rank>(task.rank()));
}

void TaskWindow::skip(Tasks tasks) {
  while (first_ < tasks.size() && !is_to_start(*tasks[first_])) ++first_;
}

TaskWindow::Tasks TaskWindow::next(Tasks tasks, std::size_t most) {
  skip(tasks);
  std::size_t size = 0;
  if (!is_closed_) {
    for (Tasks rest = tasks.subspan(first_); size < most && size < rest.size(); ++size) {
      if (!is_to_start(*rest[size]) || !take_slot(*rest[size])) break;
    }
  }
  Tasks out = tasks.subspan(first_, size);
  first_ += size;
  return out;
}

bool TaskWindow::has_next(Tasks tasks) {
  skip(tasks);
  if (is_closed_ || first_ == tasks.size()) return false;
  return !slots_ || !free_.empty() || taken_.contains(static_cast<Rank>(tasks[first_]->rank()));
}

void TaskWindow::give_back(Rank rank) {
  if (auto slot = taken_.extract(rank)) free_.insert(slot.mapped());
}

bool TaskWindow::take_slot(task::Task& task) {
  if (!slots_) return true;
  const auto rank = static_cast<Rank>(task.rank());
  auto own = taken_.find(rank);
  if (own == taken_.end()) {
    if (free_.empty()) return false;
    own = taken_.emplace(rank, *free_.first()).first;
    free_.remove(own->second);
  }
  task.set_slot(own->second);
  return true;
}

namespace {

constexpr rlim_t kDescriptorsPerTask =
    8;  // pipes of stdout and stderr, PMI; both ends, while a task is started; its usage; its death
constexpr rlim_t kDescriptorsOfShell = 64;
constexpr const char* kChannels = "channels";  // a completion reference
constexpr std::size_t kStartsPerRound = 16;    // tasks started before the loop has a turn, where no plugin looks on
constexpr std::size_t kUnderWay = 16;          // starts at the same time at most

// Signals that managers and users send to a job for its tasks; those that end the job are not among them (Signals).
constexpr int kForwarded[] = {SIGALRM, SIGUSR1, SIGCONT, SIGWINCH, SIGURG, SIGXCPU};

// Whether a start failed because the node ran out of something, and not because of the command.
bool of_this_node(const Error& error) {
  return error.code == EMFILE || error.code == ENFILE || error.code == ENOMEM || error.code == EAGAIN;
}

// exit-on-error=off, if it is set.
bool goes_on_without(const job::Options& options) {
  auto failures = options.value_at("exit-on-error");
  if (!failures) return options.is_switched_on("fault-tolerance") || options.find("at-most") != nullptr;
  Result<bool> on = job::switch_of(*failures);
  return on && !*on;
}

}  // namespace

ShellTasks::ShellTasks(plugin::Host& host, group::Group* group)
    : host_(host), group_(group), spawn_pool_(task::SpawnPool::useful_threads()) {}

Result<void> ShellTasks::watch_signals(event::Seconds grace) {
  event::Loop& loop = host_.loop();
  shutdown_ = TRY(Shutdown::create(loop, grace, [this](int signum) { host_.kill_tasks(signum); }));
  auto pass_on = [this](int signum) { host_.kill_tasks(signum); };
  for (int signum : kForwarded) {
    signals_.push_back(TRY(event::SignalWatcher::create(loop, signum, pass_on)));
  }
  // Plugins use this signal. Until one has a watcher for it, this watcher makes it harmless.
  signals_.push_back(TRY(event::SignalWatcher::create(loop, SIGUSR2, [](int) {})));
  // The tasks are in process groups of their own, so the terminal stops only this process. It stops once all
  // watchers of the signal have run: the terminal may be lent to a task, and is taken back first.
  stop_timer_ = TRY(event::Timer::create(loop, [] { std::raise(SIGSTOP); }));
  auto stop = [this](int signum) {
    host_.kill_tasks(signum);
    stop_timer_->start(event::Seconds(0));
  };
  signals_.push_back(TRY(event::SignalWatcher::create(loop, SIGTSTP, stop)));
  std::signal(SIGXFSZ, SIG_IGN);  // write(2) reports it
  return {};
}

Result<void> ShellTasks::make() {
  const job::Job& job = host_.job();
  return make(job.taskmap.ranks_on(job.shell_rank), 1, 0);
}

Result<void> ShellTasks::make(const value::Idset& ranks, std::uint32_t attempt, std::uint64_t restarts) {
  own_group_ = !TRY(host_.options().flag("nosetpgrp"));
  may_start_again_ =
      TRY(job::OnLost::read(host_.options())).replaces || TRY(job::RestartOption::read(host_.options())).is_on();
  CHECK_OK(read_at_most());
  for (value::Idset::Id rank : ranks.ids())
    tasks_.push_back(new_task(rank, static_cast<std::uint32_t>(tasks_.size()), attempt, restarts));
  return {};
}

Result<void> ShellTasks::read_at_most() {
  const job::Job& job = host_.job();
  auto most = TRY(job::AtMost::read(host_.options())).on(job.node().cores.size(), job.spec.cores_per_slot);
  if (most && !window_.is_limited()) window_.limit(*most);
  return {};
}

// These tasks were run by an earlier job (ended-before): their ends count in this one.
Result<void> ShellTasks::leave_out_ended() {
  const job::Job& job = host_.job();
  const value::Idset here = job.taskmap.ranks_on(job.shell_rank);
  for (const auto& [text, ranks] : TRY(job::ended_before(host_.options(), job.tasks()))) {
    auto record = TRY(in("ended-before", exits::Record::parse(text)));
    const value::Idset own = ranks & here;
    for (value::Idset::Id rank : own.ids()) window_.leave_out(rank);
    outcomes_.add(own, record);
    if (!own.empty()) group_->tasks_ended({own, record});
  }
  return {};
}

std::unique_ptr<task::Task> ShellTasks::new_task(std::uint32_t rank, std::uint32_t local_id, std::uint32_t attempt,
                                                 std::uint64_t restarts) const {
  task::Command command{host_.job().spec.command, job::Environment::over(host_.environment()), {}};
  job::set_task_variables(command.env, rank, local_id);
  if (may_start_again_) job::set_attempt_variables(command.env, attempt, restarts);
  command.setup.new_process_group = own_group_;
  command.setup.ends_with_parent = true;
  auto task = std::make_unique<task::Task>(rank, local_id, std::move(command), attempt);
  if (window_.is_limited()) task->set_slot(static_cast<std::uint32_t>(local_id % window_.most_at_once()));
  return task;
}

void ShellTasks::renew(std::size_t place, std::uint32_t attempt, std::uint64_t restarts) {
  settle();
  std::unique_ptr<task::Task>& task = tasks_[place];
  auto next =
      new_task(static_cast<std::uint32_t>(task->rank()), static_cast<std::uint32_t>(place), attempt, restarts);
  next->set_slot(task->slot());
  earlier_.push_back(std::exchange(task, std::move(next)));
  window_.look_again_from(place);
}

void ShellTasks::remove_moved() {
  settle();
  const value::Idset here = host_.job().taskmap.ranks_on(host_.job().shell_rank);
  auto moved = std::stable_partition(tasks_.begin(), tasks_.end(), [&](const auto& task) {
    return here.contains(static_cast<value::Idset::Id>(task->rank())) || task->state() == task::State::running;
  });
  std::for_each(moved, tasks_.end(), [this](const auto& task) { has_left(task->rank()); });
  std::move(moved, tasks_.end(), std::back_inserter(earlier_));
  tasks_.erase(moved, tasks_.end());
  window_.look_again_from(0);
}

void ShellTasks::expect_ranks(const value::Idset& ranks) {
  if (tasks_.empty()) return;
  renamed_.emplace();
  const std::vector<value::Idset::Id> ids = ranks.ids();
  for (std::size_t place = 0; place < tasks_.size(); ++place) {
    auto& next = (*renamed_)[static_cast<value::Idset::Id>(tasks_[place]->rank())];
    if (place < ids.size()) next = ids[place];
  }
}

void ShellTasks::renumber(const value::Idset& ranks, std::uint32_t attempt, std::uint64_t restarts) {
  settle();
  INVARIANT(running_ == 0);
  renamed_.reset();
  std::move(tasks_.begin(), tasks_.end(), std::back_inserter(earlier_));
  tasks_.clear();
  for (value::Idset::Id rank : ranks.ids())
    tasks_.push_back(new_task(rank, static_cast<std::uint32_t>(tasks_.size()), attempt, restarts));
  window_.look_again_from(0);
}

Result<void> ShellTasks::call_for(task::Task& task, std::string_view topic) {
  task::Task* outer = std::exchange(current_, &task);
  plugin::Call call(topic);
  Result<int> called = host_.stack().call(call);
  current_ = outer;
  if (!called) return in(fmt::format("task {}", task.rank()), std::move(called).error());
  return {};
}

void ShellTasks::kill(int signum, const group::Targets& which) {
  settle();
  for (const auto& task : tasks_) {
    if (which && !which->contains(task->rank())) continue;
    if (task->kill(signum) && signum == SIGKILL) unkillable_.killed(task->pid());
  }
  if (restarting_.signalled) restarting_.signalled(signum, which);
}

void ShellTasks::leave_out(int signum, const group::Targets& which) {
  constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGKILL};
  const bool ends = std::find(std::begin(kEnding), std::end(kEnding), signum) != std::end(kEnding);
  if (!ends || !has_begun_ || !window_.is_limited()) return;
  for (const auto& task : tasks_) {
    if (which && !which->contains(task->rank())) continue;
    if (!window_.waits(*task)) continue;
    window_.leave_out(task->rank());
    record_end(task->rank(), exits::Record::victim({}));
  }
}

// Tasks that have ended by themselves so far are no victims.
bool ShellTasks::end(Ending what) {
  settle();
  host_.children().reap();
  window_.close();
  if (restarting_.end) restarting_.end();
  for (const auto& task : tasks_) {
    if (task->state() != task::State::running || victims_.contains(task->rank())) continue;
    victims_.insert(task->rank());
    if (what.over_time) over_time_.insert(task->rank());
    if (what.leaves) gone_.insert(task->rank());
  }
  return (running_ > 0 || what.others) && shutdown_->begin(what.signum, what.grace);
}

// ---- the start -------------------------------------------------------------

Result<void> ShellTasks::raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return system_error(errno, "getrlimit RLIMIT_NOFILE");
  rlim_t wanted = kDescriptorsPerTask * std::min(tasks_.size(), window_.most_at_once()) + kDescriptorsOfShell;
  reserve_descriptors(wanted);
  if (limit.rlim_cur >= wanted) return {};
  rlimit raised{std::min(wanted, limit.rlim_max), limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) < 0) return system_error(errno, "setrlimit RLIMIT_NOFILE");
  own_descriptor_limit_ = limit;
  return {};
}

Result<void> ShellTasks::start() {
  CHECK_OK(raise_descriptor_limit());
  if (!window_.is_limited() || !has_begun_)
    host_.log().log(Level::trace, "", "starts {} task{}", tasks_.size(), tasks_.size() == 1 ? "" : "s");
  // Times are compared between shells; for one shell the order is enough.
  if (host_.job().shells() > 1) host_.children().note_deaths_at_once();
  if (!std::exchange(has_begun_, true)) CHECK_OK(leave_out_ended());
  spawn_pool_.look_at_signals();
  spawn_pool_.note_times(host_.timeline().is_on());
  return start_all(plugins_look_on());
}

// While starts are under way, other tasks are prepared, and those that run are registered. Few may be under way at
// first, so that this thread starts tasks itself before long: 64 of them start sooner by it. More may be later, so
// that no other thread runs out of them, by which 512 start sooner.
Result<void> ShellTasks::start_all(bool looks_on) {
  const bool is_one_by_one = looks_on || host_.stack().listens("task.exec");
  const std::size_t fewest = std::min<std::size_t>(kUnderWay, 4 * task::SpawnPool::useful_threads());
  const std::size_t per_round = looks_on ? 1 : kStartsPerRound;
  const auto& plugins = host_.stack().plugins();
  const bool has_others =
      std::any_of(plugins.begin(), plugins.end(), [](const auto& each) { return each->origin() != "builtin"; });
  Result<void> failure;
  std::size_t begun = 0;
  for (const std::size_t most = window_.most_at_once(); begun < most && failure && !host_.ending(); ++begun) {
    if (!window_.has_next(tasks_)) break;
    // The loop serves signals, and tasks that have ended: their descriptors make each further fork slower. In it
    // plugins other than builtins may change the job's environment, which starts under way read.
    if (begun % per_round == 0) {
      if (has_others) failure = go_on_with_starts(0);
      if (failure) host_.loop().poll();
    }
    if (!failure || host_.ending()) break;
    Batch next = window_.next(tasks_, 1);
    if (next.empty()) break;
    failure = begin(*next.front(), looks_on);
    const std::size_t under_way = is_one_by_one ? 1 : std::clamp(begun / kUnderWay, fewest, kUnderWay);
    if (failure) failure = go_on_with_starts(under_way - 1);
  }
  Result<void> last = go_on_with_starts(0);
  return failure ? last : failure;
}

// Then the topics of one task come before those of the next, as in flux-shell: a handler of task.fork may close
// what a handler of task.init has opened for its task.
bool ShellTasks::plugins_look_on() const {
  for (const char* topic : {"task.init", "task.exec", "task.fork"}) {
    if (host_.stack().others_listen(topic)) return true;
  }
  return false;
}

Result<void> ShellTasks::begin(task::Task& task, bool looks_on) {
  CHECK_OK(prepare_command(task));
  // A handler may have run for long, so events that came meanwhile count before the next step.
  if (looks_on) host_.loop().poll();
  if (host_.ending()) return {};
  if (host_.stack().listens("task.exec")) {
    over_.push_back(spawn_hooked(task));
    under_way_[&task.command()] = &task;
    return {};
  }
  under_way_[&task.command()] = &task;
  if (!strangers_kept_) strangers_kept_.emplace(host_.children());
  spawn_pool_.begin(task.command());
  return {};
}

// Runs until at most so many starts are under way.
Result<void> ShellTasks::go_on_with_starts(std::size_t most) {
  Result<void> first_failure;
  do {
    if (spawn_pool_.under_way() > most) spawn_pool_.work();
    take_up_started();
    Result<void> followed = follow_starts();
    if (first_failure) first_failure = std::move(followed);
  } while (spawn_pool_.under_way() > most);
  return first_failure;
}

// Registers all starts that are over before any failure counts: what ends the job then ends, and reaps, these tasks
// as well.
void ShellTasks::take_up_started() {
  for (task::SpawnPool::Over& each : spawn_pool_.take()) over_.push_back(std::move(each));
  while (!over_.empty()) {
    task::SpawnPool::Over over = std::move(over_.front());
    over_.pop_front();
    task::Task& task = *under_way_.extract(over.command).mapped();
    note_times(task, over);
    if (over.outcome) {
      started_.push_back(&task);
      take_up(task, *std::move(over.outcome));
    } else {
      failed_.emplace_back(&task, std::move(over.outcome).error());
    }
  }
  if (under_way_.empty()) strangers_kept_.reset();
}

void ShellTasks::note_times(const task::Task& task, const task::SpawnPool::Over& start) {
  timeline::Recorder& recorder = host_.timeline();
  if (!recorder.is_on()) return;
  auto nanoseconds = [](event::Seconds time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  };
  auto kind = start.outcome ? timeline::Kind::exec : timeline::Kind::not_started;
  recorder.add_at(nanoseconds(start.times.begun), timeline::Kind::spawn, task.rank());
  recorder.add_at(nanoseconds(start.times.over), kind, task.rank());
}

// task.fork is called only once all started tasks are registered and can be ended with the rest: a plugin may crash
// in it. The calls may settle(), which registers more.
Result<void> ShellTasks::follow_starts() {
  Result<void> first_failure;
  while (!failed_.empty() || !started_.empty()) {
    for (auto& [task, error] : std::exchange(failed_, {})) {
      Result<void> failed = fail_to_start(*task, error);
      if (first_failure) first_failure = std::move(failed);
    }
    for (task::Task* task : std::exchange(started_, {})) {
      Result<void> called = call_fork(*task);
      if (first_failure) first_failure = std::move(called);
    }
  }
  return first_failure;
}

// No start is under way afterwards, so that what is done to all tasks is done to these as well.
void ShellTasks::settle() {
  while (!under_way_.empty()) {
    spawn_pool_.work();
    take_up_started();
  }
}

// Called once per task: its end may be known before its turn, and task.fork comes before task.exit.
Result<void> ShellTasks::call_fork(task::Task& task) {
  if (!unforked_.contains(task.rank())) return {};
  unforked_.remove(task.rank());
  return call_for(task, "task.fork");
}

Result<void> ShellTasks::prepare_command(task::Task& task) {
  CHECK_OK(call_for(task, "task.init"));
  CHECK_OK(in(fmt::format("task {}", task.rank()), open_channels(task)));
  auto& limits = task.command().setup.limits;
  bool own =
      std::any_of(limits.begin(), limits.end(), [](const auto& each) { return each.resource == RLIMIT_NOFILE; });
  if (own_descriptor_limit_ && !own) limits.push_back({RLIMIT_NOFILE, *own_descriptor_limit_});
  return {};
}

// The shell does not finish before these channels have been read to their end.
Result<void> ShellTasks::open_channels(task::Task& task) {
  CHECK_OK(task.open_channels(host_.loop(), [this, &task] {
    if (!task.is_given_up()) static_cast<void>(host_.release(kChannels));
  }));
  for (std::size_t i = 0; i < task.command().channels.size(); ++i) host_.hold(kChannels);
  return {};
}

task::SpawnPool::Over ShellTasks::spawn_hooked(task::Task& task) {
  const event::Seconds begun = event::clock_now();
  task::SpawnPool::Outcome outcome = fork_hooked(task);
  return {&task.command(), std::move(outcome), {begun, event::clock_now()}};
}

task::SpawnPool::Outcome ShellTasks::fork_hooked(task::Task& task) {
  ChildsLine why;
  auto spawned = task::Spawner().spawn(task.command(), [this, &task, &why] {
    current_ = &task;
    childs_line_ = &why;
    plugin::leave_crashes_to_parent();
    why.set_busy(true);
    plugin::Call call("task.exec");
    Result<int> result = host_.stack().call(call);
    why.set_busy(false);
    if (!result) why.write(result.error().message);
    return !why.failed();
  });
  if (!spawned && !why.text().empty()) spawned.error().error.message = why.text();
  if (spawned && why.was_busy()) return ended_in_hook(spawned->pid);
  return spawned;
}

// The child's end of the pipe was closed because the child ended, not by execve(2).
task::SpawnPool::Outcome ShellTasks::ended_in_hook(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const CallPage& page = CallPage::own();  // the child has written its current call there
  auto end = value::WaitStatus::of_raw(status);
  Error why{ECANCELED, fmt::format("plugin '{}': {}: the process {}{}, instead of returning", page.plugin(),
                                   page.topic(), end.is_signal() ? "was " : "", end.str())};
  return tl::unexpected(task::SpawnError{true, task::kExitNotExecutable, std::move(why)});
}

void ShellTasks::take_up(task::Task& task, task::Spawned spawned) {
  task.started(spawned.pid, std::move(spawned.io));
  ++running_;
  unforked_.insert(task.rank());
  host_.children().guard(spawned.pid);
  host_.children().expect_death(spawned.pid);
  group_->tasks_started(number_of(task.rank(), task.attempt()));
  if (restarting_.started) restarting_.started(task);
  host_.children().watch(spawned.pid, [this, &task](const event::ChildExit& end) { on_exit(task, end); });
}

// An error: the failure is not the command's.
Result<void> ShellTasks::fail_to_start(task::Task& task, const task::SpawnError& failure) {
  if (!failure.in_child || of_this_node(failure.error))
    return in(fmt::format("task {}", task.rank()), Error(failure.error));
  auto status = value::WaitStatus::exited(failure.exit_code);
  auto record = exits::Record::not_started(failure.exit_code);
  task.exited(status, {});
  if (goes_on_without(host_.options())) {
    go_on_without(task, record, failure.error.message);
    return {};
  }
  record_end(task.rank(), record);
  exits::TaskEnd end{static_cast<value::Idset::Id>(task.rank()), record};
  host_.raise(
      {"exec", 0, fmt::format("task {}{}: {}", task.rank(), on_host(), failure.error.message), status, end});
  return {};
}

// To plugins it is a task that has ended. The leader names all such tasks; each shell logs each reason once.
void ShellTasks::go_on_without(task::Task& task, const exits::Record& record, const std::string& why) {
  Level level = start_failures_.insert(why).second ? Level::error : Level::debug;
  host_.log().log(level, "", "task {}{}: {}", task.rank(), on_host(), why);
  call_exit(task);
  record_end(task.rank(), record);
}

// ---- the end ---------------------------------------------------------------

void ShellTasks::on_exit(task::Task& task, const event::ChildExit& end) {
  INVARIANT(running_ > 0);
  --running_;
  if (end.given_up) return give_up(task);
  task.exited(value::WaitStatus::of_raw(end.status), end.usage, end.death);
  raise_if_failed(call_fork(task));
  host_.timeline().add(timeline::Kind::exit, task.rank(), end.status);
  host_.log().log(Level::debug, "", "task {} {}", task.rank(), task.status().str());
  if (restarting_.keeps && restarting_.keeps(task)) return;
  end_for_good(task);
}

// As with tasks of a lost shell, nobody has seen the end; and what the task holds may stay open.
void ShellTasks::give_up(task::Task& task) {
  task.give_up();
  raise_if_failed(call_fork(task));
  for (std::size_t i = task.open_channels(); i > 0; --i) static_cast<void>(host_.release(kChannels));
  call_exit(task);
  record_end(task.rank(), gone_.contains(task.rank()) ? exits::Record::gone({}) : exits::Record::lost());
}

void ShellTasks::raise_if_failed(const Result<void>& called) {
  if (!called) host_.raise({"exec", 0, called.error().message + on_host(), std::nullopt});
}

void ShellTasks::end_for_good(task::Task& task) {
  call_exit(task);
  record_end(task.rank(), record_of(task));
}

exits::Record ShellTasks::record_of(const task::Task& task) const {
  if (over_time_.contains(task.rank())) return exits::Record::over_time(task.status());
  if (gone_.contains(task.rank())) return exits::Record::gone(task.status());
  return victims_.contains(task.rank()) ? exits::Record::victim(task.status()) : exits::Record::of(task.status());
}

void ShellTasks::record_end(value::Idset::Id rank, const exits::Record& record) {
  window_.give_back(rank);
  if (renamed_) {
    auto next = renamed_->find(rank);
    if (next == renamed_->end() || !next->second) return;
    rank = *next->second;
  }
  outcomes_.add(value::Idset::range(rank, rank), record);
  group_->tasks_ended({number_of(rank, host_.job().attempt_of(rank)), record});
}

value::Idset ShellTasks::number_of(value::Idset::Id rank, std::uint32_t attempt) const {
  auto number = elastic::Starts(host_.job().most_tasks()).number(rank, attempt);
  return value::Idset::range(number, number);
}

// Empty if there is no other shell.
std::string ShellTasks::on_host() const {
  const job::Job& job = host_.job();
  return job.shells() > 1 && !host_.standalone() ? job.resources.nodes[job.shell_rank].on() : "";
}

}  // namespace nacre::core
