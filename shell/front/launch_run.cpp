// SPDX-License-Identifier: Apache-2.0
#include "front/launch_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "base/print.hpp"
#include "base/process_start.hpp"
#include "base/signals_blocked.hpp"
#include "base/standstill.hpp"
#include "base/text.hpp"
#include "base/variable.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "front/launch_signals.hpp"
#include "front/srun_errors.hpp"
#include "job/batch_system.hpp"
#include "launch/launcher.hpp"
#include "launch/stream.hpp"
#include "task/subprocess.hpp"
#include "value/idset.hpp"
#include "value/wait_status.hpp"

namespace nacre::front {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
// How long a job may take to end before its agent is killed: longer than it takes to notice that a shell is lost.
constexpr event::Seconds kToEnd{10};
constexpr event::Seconds kToCancel{2};  // likewise for an agent that has not begun to read
constexpr event::Seconds kToTake{10};   // how long the leader's agent may take to read a signal
constexpr event::Seconds kToStop{0.5};  // the same, before this process stops itself
constexpr event::Seconds kMoment{0.01};
constexpr event::Seconds kToLeave{10};  // how long the leader may take to let this process leave
constexpr event::Seconds kAskAgain{0.02};
constexpr event::Seconds kAgentToEnd{2};  // how long the leader's agent has, once the leader goes on alone
constexpr event::Seconds kLook{2};        // how often the state of the leader's process is checked
constexpr event::Seconds kToJoin{4};  // how long the other shells have once one has ended before all have joined
constexpr event::Seconds kToEndToo{0.5};   // the same, once a signal has ended one, as the job does not go on then
constexpr event::Seconds kToLeaveStep{5};  // how long srun may take to end, once the job has
constexpr event::Seconds kToTell{2};       // until it is said that the shells that srun starts are not there yet
constexpr std::uint64_t kMostCode = 255;
constexpr int kAgentFailed = 255;  // what ssh exits with when it fails itself

// The one process that `nacre launch`, or `nacre run`, starts and waits for.
class LaunchRun {
 public:
  static Result<std::unique_ptr<LaunchRun>> create(LaunchPlan plan) {
    std::unique_ptr<LaunchRun> out(new LaunchRun(std::move(plan)));
    CHECK_OK(out->watch());
    CHECK_OK(out->start());
    return out;
  }

  int wait() {
    loop_->run_until([this] { return left_ || (process_->exited() && (!drops_output_ || process_->complete())); });
    if (left_) return end_left();
    loop_->poll();  // a signal may have come meanwhile
    feed_.reset();
    reports_->finish([this] { return process_->complete(); });
    if (dropped_)
      print_err("{}: standard output is closed: what the job has written to it is lost\n", plan_.record.front);
    if (code_ && !is_detached_at_start() && !unjoined_) return with_losses(*code_);
    if (auto signum = signals_.ended_by()) return value::kSignalBase + *signum;
    if (auto signum = taken_by_srun()) return value::kSignalBase + *signum;
    bool runs = is_detached_at_start() && process_->status().job_code() == 0;
    if (runs) print_out("{}\n", plan_.record.job.f58_plain());
    if (runs) return flush_out() ? 0 : 1;
    if (unjoined_) return srun_errors_.signal() ? value::kSignalBase + *srun_errors_.signal() : 1;
    return with_losses(code_of(process_->status()));
  }

 private:
  explicit LaunchRun(LaunchPlan plan) : plan_(std::move(plan)) {}

  [[nodiscard]] bool is_detached_at_start() const { return plan_.record.detaching == launch::Detaching::at_start; }

  Result<void> watch() {
    loop_ = TRY(event::Loop::create());
    children_ = TRY(event::Children::create(*loop_, {}));
    for (auto [timer, act] :
         {std::pair{&to_end_, &LaunchRun::kill}, std::pair{&to_take_, &LaunchRun::end_untaken},
          std::pair{&to_stop_, &LaunchRun::stop}, std::pair{&look_, &LaunchRun::look},
          std::pair{&to_ask_, &LaunchRun::ask_to_leave}, std::pair{&to_join_, &LaunchRun::end_unjoined},
          std::pair{&to_tell_, &LaunchRun::tell_of_waiting},
          std::pair{&to_leave_step_, &LaunchRun::end_kept_step}}) {
      *timer = TRY(event::Timer::create(*loop_, [this, act = act] { (this->*act)(); }));
      (*timer)->unref();
    }
    // An ignored SIGHUP is left alone: nohup(1) means it. An ignored SIGINT is watched: a shell without job control
    // ignores it for all that it starts in the background.
    for (int signum : kPassedOn) {
      if (signum != SIGHUP || !ignores_signal(SIGHUP)) CHECK_OK(watch(signum, &LaunchRun::on_signal));
    }
    if (ignores_signal(SIGTSTP)) return {};
    return watch(SIGTSTP, &LaunchRun::on_stop);
  }

  Result<void> watch(int signum, void (LaunchRun::*act)(int)) {
    auto watcher = TRY(event::SignalWatcher::create(*loop_, signum, [this, act](int each) { (this->*act)(each); }));
    watcher.keeps_running(false);
    watchers_.push_back(std::move(watcher));
    return {};
  }

  Result<void> start() {
    task::Command command = TRY(launch_command(plan_));
    name_ = command.argv[0];
    through_agent_ = !plan_.srun && !plan_.record.agent.empty() && !launch::is_this_host(plan_.leader);
    plan_.record.remote = through_agent_;
    if (plan_.verbose)
      print_err("{}: {} shells; starting {}\n", plan_.record.front, plan_.record.size,
                fmt::join(command.argv, " "));
    LaunchReports::Watch leader;
    leader.on_ended = [this](std::string_view code) { on_ended(code); };
    leader.on_signal = [this](std::string_view number) {
      if (number == std::to_string(untaken_)) untaken_ = 0;
    };
    if (plan_.srun && !labels_lines(*plan_.srun)) {
      leader.filter = [this](std::string_view bytes) { return take_srun_error(bytes); };
      leader.at_end = [this] { return (is_told() ? "" : srun_errors_.kept()) + srun_errors_.rest(); };
      leader.on_joined = [this] {
        joined_ = true;
        srun_errors_.keep();
        to_tell_->stop();
      };
    }
    reports_ = TRY(LaunchReports::create(*loop_, plan_.record.front, plan_.reports, !plan_.srun && !through_agent_,
                                         std::move(leader)));
    reports_->add_to(command, plan_.record);
    auto secret = TRY(transport::Secret::generate());
    std::string lines = launch::launch_lines(secret, plan_.record);
    command.stream_options["stdin_BUFSIZE"] = std::to_string(lines.size() + task::BufferedStream::kBufferSize);
    task::Subprocess::Options options;
    options.streams = {"stdin"};
    options.inherit_stdio = true;
    // A shell reports that it cannot write to standard output; srun does not.
    drops_output_ = plan_.srun && !is_writable(STDOUT_FILENO);
    if (drops_output_) options.streams.emplace_back("stdout");
    if (reports_->is_carried()) options.streams.emplace_back("stderr");
    task::Subprocess::Callbacks callbacks;
    callbacks.on_ready = [this](const std::string& stream) {
      if (stream == "stderr") return reports_->on_ready(*process_->stream(stream));
      while (!process_->stream(stream)->read().empty()) dropped_ = true;
    };
    callbacks.on_room = [this](const std::string&, std::size_t) {
      if (feed_) feed_->on_room();
    };
    auto process =
        task::Subprocess::start(*loop_, *children_, std::move(command), std::move(options), std::move(callbacks));
    if (!process) return in(plan_.srun ? "--srun" : plan_.leader, Error(process.error().error));
    process_ = std::move(*process);
    to_ = process_->stream("stdin");
    static_cast<void>(to_->write(lines));  // if the process has gone already, its end shows that
    transport::wipe(lines);
    feed_ = TRY(launch::LaunchFeed::create(*loop_, *to_, plan_.input));
    look_->start(kLook, kLook);
    if (plan_.srun && !labels_lines(*plan_.srun)) to_tell_->start_grace(kToTell);
    return {};
  }

  // ---- signals -----------------------------------------------------------------

  void on_signal(int signum) {
    if (signum == SIGHUP && plan_.outlived && to_->taken() > 0 && !signals_.ended_by()) {
      hung_up_ = true;
      return leave();
    }
    bool begun = to_->taken() > 0;  // an agent that cannot reach its host reads nothing
    switch (signals_.on_signal(signum, event::clock_now().count(), begun)) {
      case LaunchSignals::Act::pass: return pass(signum);
      case LaunchSignals::Act::cancel: return cancel();
      case LaunchSignals::Act::end: return end(signum, signum == SIGINT ? "interrupted twice" : "terminated twice");
      case LaunchSignals::Act::kill: return kill();
    }
  }

  void pass(int signum) {
    feed_->signal(signum);
    if (!LaunchSignals::ends_programs(signum) || untaken_ != 0 || signals_.ended_by()) return;
    untaken_ = signum;
    to_be_taken_ = to_->written();
    to_take_->start_grace(is_confirmed() ? kToLeaveStep : kToTake);
  }

  // Whether the leader says which signals it has read, as srun reads for it.
  [[nodiscard]] bool is_confirmed() const { return plan_.srun && reports_->is_carried(); }

  // The leader may have stopped reading: it stands still, or nobody reads the job's input, which precedes the
  // signal.
  void end_untaken() {
    int signum = std::exchange(untaken_, 0);
    if (signum == 0 || signals_.ended_by()) return;
    if (is_confirmed() ? has_ended_ : to_->taken() >= to_be_taken_) return;
    if (is_confirmed() && reports_->is_held_up()) {
      untaken_ = signum;
      return to_take_->start_grace(kToLeaveStep);
    }
    signals_.end_by(signum);
    if (is_confirmed())
      return end_step(
          fmt::format("{} was not taken within {} s", value::signal_name(signum), kToLeaveStep.count()));
    end(signum, fmt::format("{} was not taken within {} s", value::signal_name(signum), kToTake.count()));
  }

  void cancel() {
    to_->abandon();
    static_cast<void>(process_->kill(SIGTERM));
    to_end_->start_grace(kToCancel);
  }

  // The leader ends its job when its launcher is gone. If it has stopped reading nothing more is sent.
  void end(int signum, std::string_view why) {
    if (!plan_.quiet) print_err("{}: {}: ending the job\n", plan_.record.front, why);
    bool reads = to_->taken() == to_->written();
    feed_->end(signum);
    reads ? to_->close() : to_->abandon();
    to_end_->start_grace(kToEnd);
  }

  void kill() { static_cast<void>(process_->kill(SIGKILL)); }

  // ---- srun --------------------------------------------------------------------

  // srun goes on if a shell has ended, as one that leaves the job does; but if one could not even be run, the
  // others would wait for it. What the shells write before all have joined has nothing from tasks in it.
  std::string take_srun_error(std::string_view bytes) {
    const value::Idset before = srun_errors_.ended();
    std::string out = srun_errors_.take(bytes);
    if (srun_errors_.ended() == before) return out;
    if (!joined_) {
      to_join_->start_grace(srun_errors_.signal() ? kToEndToo : kToJoin);
    } else if (!has_ended_ && srun_errors_.ended().contains(0)) {  // without a word; no shell goes on without it
      to_leave_step_->start_grace(kToEnd);
    }
    return out;
  }

  // What srun says about shells adds nothing to what the leader, or this process, has said, unless that is nothing.
  [[nodiscard]] bool is_told() const { return (has_ended_ || ends_step_) && !plan_.verbose; }

  void on_ended(std::string_view code) {
    has_ended_ = true;
    if (auto number = parse_u64(code); number && *number <= kMostCode) code_ = static_cast<int>(*number);
    if (plan_.srun) to_leave_step_->start_grace(kToLeaveStep);
  }

  // A shell that stands still, and was lost to the job, would keep the step, and so this process.
  void end_kept_step() { end_step("the job has ended, and not all of its shells: one may stand still"); }

  void end_step(std::string_view why) {
    if (process_->exited()) return;
    print_err("{}: {}; ending the step of srun\n", plan_.record.front, why);
    ends_step_ = true;
    srun_errors_.ends_step();
    static_cast<void>(process_->kill(SIGTERM));
    to_end_->start_grace(kToCancel);
  }

  void tell_of_waiting() {
    if (plan_.quiet || signals_.ended_by()) return;
    std::string job = own_variable("SLURM_JOB_ID").value_or("");
    std::string how = job.empty()
                          ? "squeue --me shows whether it waits for an allocation"
                          : fmt::format("squeue --steps --jobs={} shows which other steps have its nodes", job);
    print_err("{}: waiting for srun, whose shells are not all there after {:g} s: {}\n", plan_.record.front,
              kToTell.count(), how);
  }

  void end_unjoined() {
    if (joined_ || signals_.ended_by()) return;
    print_err("{}: a shell has ended before all had joined: ending the job\n", plan_.record.front);
    unjoined_ = true;
    cancel();
  }

  // ---- stopping ----------------------------------------------------------------

  // The terminal stops only this process: the leader and its tasks are in process groups of their own. on_signal()
  // passes SIGCONT on.
  void on_stop(int signum) {
    bool may_leave = plan_.record.detaching == launch::Detaching::on_request;
    if (may_leave && signals_.leaves(event::clock_now().count())) return leave();
    feed_->signal(signum);
    to_be_taken_ = to_->written();
    stops_at_ = event::clock_now() + kToStop;
    stop();
  }

  void stop() {
    if (to_->taken() >= to_be_taken_ || event::clock_now() >= stops_at_)
      std::raise(SIGSTOP);
    else
      to_stop_->start(kMoment);
  }

  // ---- leaving -------------------------------------------------------------------

  void leave() {
    if (std::exchange(asks_, true)) return;
    asks_until_ = event::clock_now() + kToLeave;
    ask_to_leave();
  }

  // The leader closes its stream once it can go on alone.
  void ask_to_leave() {
    feed_->detach();
    left_ = to_->closed() && !process_->exited();
    asks_ = !left_ && !to_->closed() && event::clock_now() < asks_until_;
    if (left_ || to_->closed()) return;
    if (asks_) return to_ask_->start(kAskAgain);
    print_err("{}: {} does not let this process leave: the job is as before\n", plan_.record.front, subject());
  }

  // The leader has reported that the job goes on.
  int end_left() {
    feed_.reset();
    bool late = false;
    auto timer = event::Timer::create(*loop_, [&late] { late = true; });
    if (timer && through_agent_) {
      timer->start(kAgentToEnd);
      loop_->run_until([&] { return late || process_->exited(); });
      if (late) static_cast<void>(process_->kill(SIGTERM));
      if (process_->exited() && process_->status().job_code() != 0) return code_of(process_->status());
    }
    return hung_up_ ? value::kSignalBase + SIGHUP : 0;
  }

  // ---- the leader's state, and its end -------------------------------------------

  [[nodiscard]] int with_losses(int code) const {
    code = std::max(code, dropped_ ? 1 : 0);
    return hung_up_ && code == 0 ? value::kSignalBase + SIGHUP : code;
  }

  [[nodiscard]] std::string subject() const {
    if (plan_.srun) return "srun";
    std::string shell = fmt::format("shell 0 on {}", plan_.leader);
    return through_agent_ ? fmt::format("{}, which has started {},", name_, shell) : shell;
  }

  void look() {
    auto report = standstill_.update(process_state(process_->pid()), event::clock_now().count());
    if (report) print_err("{}: {} {}\n", plan_.record.front, subject(), *report);
  }

  // When a terminal is closed srun gets the signal too, and kills the shells: returns that signal.
  [[nodiscard]] std::optional<int> taken_by_srun() const {
    bool killed = plan_.srun && process_->status().job_code() == value::kSignalBase + SIGKILL;
    return killed ? signals_.terminated_since((event::clock_now() - kToEnd).count()) : std::nullopt;
  }

  [[nodiscard]] int code_of(const value::WaitStatus& status) const {
    if (status.is_signal()) print_err("{}: {} was {}\n", plan_.record.front, subject(), status.str());
    if (!through_agent_ || status.job_code() != kAgentFailed) return status.job_code();
    print_err(
        "{}: {}: {} has failed (exit code {}): no shell was started there, it was killed, or the link to it "
        "broke\n",
        plan_.record.front, plan_.leader, name_, kAgentFailed);
    return 1;
  }

  LaunchPlan plan_;
  std::string name_;
  bool through_agent_ = false;
  std::unique_ptr<event::Loop> loop_;
  std::unique_ptr<event::Children> children_;
  std::vector<event::SignalWatcher> watchers_;
  std::optional<event::Timer> to_end_, to_take_, to_stop_, look_, to_ask_, to_join_, to_tell_, to_leave_step_;
  std::unique_ptr<task::Subprocess> process_;
  task::BufferedStream* to_ = nullptr;  // its standard input
  std::unique_ptr<launch::LaunchFeed> feed_;
  std::unique_ptr<LaunchReports> reports_;
  bool drops_output_ = false;  // srun writes output, but there is no standard output
  bool dropped_ = false;
  LaunchSignals signals_;
  Standstill standstill_;
  SrunErrors srun_errors_;
  bool joined_ = false;        // all shells have; reported if srun has started them
  bool has_ended_ = false;     // likewise the job ...
  std::optional<int> code_{};  // ... and its exit code
  bool unjoined_ = false;      // the job was ended, as they never would
  bool ends_step_ = false;     // srun is made to end, as shells may stand still
  int untaken_ = 0;            // a signal that was passed on and that the job may not have got; 0: none
  std::uint64_t to_be_taken_ =
      0;  // bytes written to it, up to the end of the last signal that has to be read in time
  event::Seconds stops_at_{};
  event::Seconds asks_until_{};
  bool asks_ = false;     // the leader, to let this process leave
  bool left_ = false;     // the job goes on without this process
  bool hung_up_ = false;  // the terminal has gone
};

}  // namespace

Result<int> launch(LaunchPlan plan) {
  // A broken pipe is noticed by the process's end. A terminal that another process group has is read again later.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGTTIN, SIG_IGN);
  auto run = TRY(LaunchRun::create(std::move(plan)));
  int code = run->wait();
  block_ending_signals();  // before the watchers go
  return code;
}

Result<void> detach_at_start(const job::Options& options, LaunchPlan& plan) {
  if (plan.srun)
    return invalid(
        "--detach: srun carries the job's output, and ends the job when it goes itself: submit a script with "
        "sbatch, "
        "or have ssh start the shells, with --hosts");
  bool is_remote = !plan.record.agent.empty() && !launch::is_this_host(plan.leader);
  if (is_remote && !plan.reports.empty())
    return invalid(
        fmt::format("--detach: {} cannot come here from {} once this process has gone: give -o {}=FILE, of "
                    "that host",
                    plan.reports[0].option, plan.leader, plan.reports[0].channel));
  plan.record.detaching = launch::Detaching::at_start;
  const Json* when_left = options.find("input.when-left");
  plan.record.input = when_left != nullptr && *when_left == "open";  // the shell names other values
  plan.input = plan.record.input ? launch::LaunchFeed::kOpenInput : launch::LaunchFeed::kNoInput;
  plan.record.terminal = false;
  return {};
}

Result<void> read_on_launcher_lost(const job::Options& options, LaunchPlan& plan) {
  const Json* option = options.find("on-launcher-lost");
  if (option == nullptr || *option != "go-on") return {};  // the shell names other values
  if (plan.srun)
    return invalid(
        "on-launcher-lost=go-on: srun carries the job's output, and ends the job when it goes itself: submit a "
        "script "
        "with sbatch, or have ssh start the shells, with --hosts");
  plan.outlived = true;
  plan.record.detaching = launch::Detaching::on_request;
  return {};
}

void let_leave(const job::Options& options, LaunchPlan& plan) {
  const auto& words = plan.record.shell;
  bool explains = std::any_of(words.begin(), words.end(),
                              [](const std::string& each) { return each.starts_with("--explain"); });
  // What is no value of theirs is named by the shell.
  bool lends = options.find("pty") != nullptr && options.flag("pty.interactive").value_or(false);
  bool is_found = options.find("control") == nullptr || options.flag("control").value_or(true);
  if (!plan.srun && plan.record.terminal && !explains && !lends && is_found)
    plan.record.detaching = launch::Detaching::on_request;
}

Result<task::Command> launch_command(const LaunchPlan& plan) {
  std::vector<std::string> words = plan.record.shell;
  words.emplace_back(plan.srun ? "--boot=slurm" : "--boot=hosts");
  if (!plan.srun) return launch::agent_command(plan.record.agent, plan.leader, words);
  // The shells themselves decide how the job ends, and which of them leaves it before: srun is to end none.
  std::vector<std::string> argv{"srun",
                                "--mpi=none",
                                "--ntasks-per-node=1",
                                fmt::format("--nodes={}", plan.record.size),
                                fmt::format("--ntasks={}", plan.record.size),
                                "--kill-on-bad-exit=0",
                                "--wait=0",
                                "--no-kill"};  // even if one of the nodes fails
  // The step that this is in has what it was given, and a step within it would wait for that.
  if (own_variable("SLURM_STEP_ID") || own_variable("SLURM_STEPID")) argv.emplace_back("--overlap");
  argv.insert(argv.end(), plan.srun->begin(), plan.srun->end());
  argv.insert(argv.end(), words.begin(), words.end());
  task::Command command = TRY(launch::agent_command({}, "localhost", argv));
  command.env.set(job::BatchSystem::kStepSurvives, "1");
  return command;
}

}  // namespace nacre::front
