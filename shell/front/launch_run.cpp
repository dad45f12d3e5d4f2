// SPDX-License-Identifier: Apache-2.0
#include "front/launch_run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "base/program.hpp"
#include "base/signals.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "exits/policy.hpp"
#include "front/follow.hpp"
#include "front/mpir.hpp"
#include "job/batch_system.hpp"
#include "launch/launcher.hpp"
#include "launch/stream.hpp"
#include "task/subprocess.hpp"

namespace nacre::front {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
// How long a job may take to end before its agent is killed: longer than it takes to notice that a shell is lost.
constexpr event::Seconds kToEnd{10};
constexpr event::Seconds kToCancel{2};          // the same, for an agent that has not begun to read
constexpr event::Seconds kToTake{10};           // how long the leader's agent may take to read a signal
constexpr event::Seconds kToStop{0.5};          // the same, before this process stops itself
constexpr useconds_t kLookForSignals = 10'000;  // microseconds
constexpr event::Seconds kMoment{0.01};
constexpr event::Seconds kToLeave{10};  // how long the leader may take to let this process leave
constexpr event::Seconds kAskAgain{0.02};
constexpr event::Seconds kToShow{0.1};    // how often it is looked whether all tasks run, for a debugger
constexpr int kTellNotShown = 100;        // after so many looks it is said why they do not
constexpr event::Seconds kAgentToEnd{2};  // how long the leader's agent has, once the leader goes on alone
constexpr event::Seconds kToTry{5};       // how long the leader's host may take to say whether it can run a shell
constexpr event::Seconds kLook{2};        // how often the state of the leader's process is checked
constexpr event::Seconds kToJoin{4};  // how long the other shells have once one has ended before all have joined
constexpr event::Seconds kToEndToo{0.5};  // the same, if a signal has ended a shell, as the job does not go on then
constexpr event::Seconds kToLeaveStep{5};  // how long srun may take to end, once the job has
constexpr event::Seconds kToTellHalf{3};   // for a leader, once a shell has lost it, to tell that it lives
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
    const int code = wait_for_end();
    if (is_shown_ && code != 0 && !left_)
      show_end_to_debugger(fmt::format("job {}: exit code {}", plan_.record.job.f58_plain(), code));
    return code;
  }

 private:
  int wait_for_end() {
    loop_->run_until([this] {
      return left_ || is_told_of_next() || (process_->exited() && (!drops_output_ || process_->complete()));
    });
    if (left_) return end_left();
    loop_->poll();  // a signal may have come meanwhile
    feed_.reset();
    if (is_told_of_next()) return follow_leader();
    reports_->finish([this] { return process_->complete(); });
    if (is_leader_lost()) return follow_leader();
    if (dropped_)
      print_err("{}: standard output is closed: what the job has written to it is lost\n", plan_.record.front);
    if (is_lost_with_all()) return lost_with_all("the shell that led the job is lost: the job has ended with it");
    if (code_ && !is_detached_at_start() && !unjoined_) return with_losses(*code_);
    if (auto signum = signals_.ended_by()) return value::kSignalBase + *signum;
    if (auto signum = taken_by_srun()) return value::kSignalBase + *signum;
    bool runs = is_detached_at_start() && process_->status().job_code() == 0;
    if (runs) return print_id();
    if (unjoined_) return srun_errors_.signal() ? value::kSignalBase + *srun_errors_.signal() : 1;
    return with_losses(code_of(process_->status()));
  }

  // Whoever cannot read it there has to know the job, which runs.
  [[nodiscard]] int print_id() const {
    const std::string id = plan_.record.job.f58_plain();
    print_out("{}\n", id);
    Result<void> printed = flush_out();
    if (printed) return 0;
    print_err("{}: {}; job {} runs: nacre attach {} or nacre cancel {}\n", plan_.record.front,
              printed.error().message, id, id, id);
    return 1;
  }

  // Killed, or its host is out of reach; one that the others have given up ends so itself.
  [[nodiscard]] bool is_leader_lost() const {
    if (!plan_.follow || plan_.srun || has_ended_ || signals_.ended_by() || to_->taken() == 0) return false;
    const value::WaitStatus& status = process_->status();
    // An agent may report a signal as sh does.
    return status.is_signal() || status.job_code() == launch::kLeaderLost ||
           (through_agent_ && status.job_code() > value::kSignalBase);
  }

  // All shells that srun has started have ended, and none has said how the job has.
  [[nodiscard]] bool is_lost_with_all() const {
    return plan_.srun && plan_.follow && joined_ && !has_ended_ && !ends_step_ && !signals_.ended_by() &&
           !taken_by_srun() && !process_->status().is_signal();
  }

  int lost_with_all(std::string_view why) const {
    print_err("{}: {}\n", plan_.record.front, why);
    return with_losses(plan_.follow->lost_code);
  }

  // By the next leader, of shells that srun has started, which goes on.
  [[nodiscard]] bool is_told_of_next() const { return told_ && !has_ended_ && !signals_.ended_by(); }

  int follow_leader() {
    follows_ = true;
    if (untaken_ != 0 && (is_confirmed() || to_->taken() < to_be_taken_)) kept_signals_.push_back(untaken_);
    untaken_ = 0;
    to_take_->stop();
    plan_.follow->take_signals = [this] { return std::exchange(kept_signals_, {}); };
    look_->stop();
    to_show_->stop();
    if (plan_.record.input) plan_.follow->input = {&sent_, plan_.input};
    plan_.follow->without = &without_;
    plan_.follow->on_report = [this](std::string_view report, std::string_view text) {
      report == "terminal" ? print_err("{}", text) : reports_->go_on(report, text);
    };
    if (plan_.srun) {
      plan_.follow->told = &told_;
      plan_.follow->is_over = [this] { return process_->exited(); };
    }
    auto code = follow(*loop_, *plan_.follow, [this](event::Seconds time) { return look_for_signals(time); });
    if (plan_.srun) end_followed_step();
    reports_->flush();
    if (code) return with_losses(*code);
    const int lost = lost_with_all(code.error().message);
    return interrupted_by_ ? value::kSignalBase + *interrupted_by_ : lost;
  }

  // Called while another leader is looked for. False: a signal has ended the search.
  bool look_for_signals(event::Seconds time) {
    const event::Seconds until = event::clock_now() + time;
    auto polled = event::Timer::create(*loop_, [] {});  // a loop that has nothing else to wait for polls nothing
    if (polled) polled->start(time + kToEnd);
    searches_ = true;
    do loop_->poll();
    while (!interrupted_by_ && event::clock_now() < until && ::usleep(kLookForSignals) == 0);
    searches_ = false;
    return !interrupted_by_;
  }

  explicit LaunchRun(LaunchPlan plan) : plan_(std::move(plan)) {}

  [[nodiscard]] bool is_detached_at_start() const { return plan_.record.detaching == launch::Detaching::at_start; }

  Result<void> watch() {
    loop_ = TRY(event::Loop::create());
    children_ = TRY(event::Children::create(*loop_, {}));
    for (auto [timer, act] :
         {std::pair{&to_end_, &LaunchRun::kill}, std::pair{&to_take_, &LaunchRun::end_untaken},
          std::pair{&to_stop_, &LaunchRun::stop}, std::pair{&look_, &LaunchRun::look},
          std::pair{&to_ask_, &LaunchRun::ask_to_leave}, std::pair{&to_join_, &LaunchRun::end_unjoined},
          std::pair{&to_tell_, &LaunchRun::tell_of_waiting}, std::pair{&to_show_, &LaunchRun::show_tasks},
          std::pair{&to_leave_step_, &LaunchRun::end_kept_step},
          std::pair{&to_want_, &LaunchRun::let_wanted_lead}}) {
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
    LaunchReports::Watch leader{};
    leader.on_ended = [this](std::string_view code) { on_ended(code); };
    leader.on_signal = [this](std::string_view number) {
      if (number == std::to_string(untaken_)) untaken_ = 0;
    };
    leader.on_half = [this](std::string_view shells) { on_half(shells); };
    if (plan_.follow && through_agent_) {
      leader.filter = [this](std::string_view bytes) {
        note_standstill(bytes);
        return std::string(bytes);
      };
    }
    if (plan_.srun) {
      leader.is_labelled = labels_lines(*plan_.srun);
      leader.filter = [this](std::string_view bytes) { return take_srun_error(bytes); };
      leader.at_end = [this] { return (is_told() ? "" : srun_errors_.kept()) + srun_errors_.rest(); };
      leader.on_joined = [this] {
        joined_ = true;
        srun_errors_.keep();
        to_tell_->stop();
      };
      leader.on_leads = [this](std::string_view message) { on_leads(message); };
      leader.on_wanted = [this](std::string_view message) { on_wanted(message); };
    }
    reports_ = TRY(LaunchReports::create(*loop_, plan_.record.front, plan_.reports, !plan_.srun && !through_agent_,
                                         std::move(leader)));
    reports_->add_to(command, plan_.record);
    if (debugger_asks() && !is_detached_at_start()) {
      plan_.record.options.emplace_back("stop-tasks-in-exec");
      holds_tasks_ = true;
    }
    auto secret = TRY(transport::Secret::generate());
    std::string lines = launch::launch_lines(secret, plan_.record.line());
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
    static_cast<void>(to_->write(lines));  // if the process has gone already, its end will show that
    transport::wipe(lines);
    feed_ = TRY(launch::LaunchFeed::create(*loop_, *to_, plan_.input, plan_.follow ? &sent_ : nullptr));
    look_->start(kLook, kLook);
    if (holds_tasks_) to_show_->start(kToShow, kToShow);
    if (plan_.srun) to_tell_->start_grace(kToTell);
    return {};
  }

  // ---- signals -----------------------------------------------------------------

  void on_signal(int signum) {
    if (follows_) return keep(signum);
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

  // While another leader is looked for. The second one by which programs end ends that.
  void keep(int signum) {
    if (!searches_) return;
    const bool ends = LaunchSignals::ends_programs(signum);
    if (ends && std::any_of(kept_signals_.begin(), kept_signals_.end(), LaunchSignals::ends_programs)) {
      interrupted_by_ = signum;
      return;
    }
    kept_signals_.push_back(signum);
    if (signum == SIGINT && !plan_.quiet)
      print_err("{}: interrupted: the tasks get it once another shell leads the job; once more leaves the job\n",
                plan_.record.front);
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

  // The leader may have stopped reading: it stands still, or nobody reads the job's input that comes before the
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

  // srun goes on when a shell has ended, as one that leaves the job does. But if a shell could not even be run, the
  // others would wait for it. What the shells write before all have joined has nothing from tasks in it.
  std::string take_srun_error(std::string_view bytes) {
    const value::Idset before = srun_errors_.ended();
    std::string out = srun_errors_.take(bytes);
    if (srun_errors_.ended() == before) return out;
    if (!joined_) {
      to_join_->start_grace(srun_errors_.signal() ? kToEndToo : kToJoin);
    } else if (!has_ended_ && !follows_ && srun_errors_.ended().contains(0)) {  // without a word
      to_leave_step_->start_grace(plan_.follow ? kMostToFind : kToEnd);
    }
    return out;
  }

  void on_leads(std::string_view message) {
    auto leader = launch::NextLeader::parse(message);
    if (!leader || has_ended_ || !plan_.follow) return;
    told_ = *std::move(leader);
    to_leave_step_->stop();
  }

  // It is let lead, unless the leader says in time that it has lost that shell; it gets no such word afterwards.
  void on_wanted(std::string_view message) {
    auto shell = launch::NextLeader::parse(message);
    if (!shell || has_ended_ || !plan_.follow) return;
    wanted_ = *std::move(shell);
    to_want_->start_grace(srun_errors_.ended().contains(0) ? event::Seconds::zero() : kToTellHalf);
  }
  void let_wanted_lead() {
    if (!without_.empty() || told_ || has_ended_) return;
    told_ = std::exchange(wanted_, std::nullopt);
    to_leave_step_->stop();
  }

  // The leader has lost half of the shells, which may be cut off: it may go on, if none of these leads.
  void on_half(std::string_view shells) {
    auto lost = value::Idset::parse(shells);
    if (!lost || follows_ || told_ || has_ended_ || !plan_.follow) return;
    without_ = without_ | *lost;
    feed_->agree(*lost);
  }

  // The job has ended, or nothing more is to be known of it.
  void end_followed_step() {
    has_ended_ = true;
    srun_errors_.ends_step();
    if (!process_->exited()) to_leave_step_->start_grace(kToLeaveStep);
    loop_->run_until([this] { return process_->exited(); });
    reports_->finish([this] { return process_->complete(); });
  }

  // The leader or this process has said how the job has ended: then what srun says about its shells adds nothing.
  [[nodiscard]] bool is_told() const { return (has_ended_ || ends_step_) && !plan_.verbose; }

  void on_ended(std::string_view code) {
    has_ended_ = true;
    if (auto number = parse_u64(code); number && *number <= kMostCode) code_ = static_cast<int>(*number);
    if (!plan_.srun) return;
    srun_errors_.ends_step();
    to_leave_step_->start_grace(kToLeaveStep);
  }

  // A shell that stands still, and is lost to the job, would keep the step, and so this process.
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
    if (follows_) {
      std::raise(SIGSTOP);
      return;
    }
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

  [[nodiscard]] std::string leader_text() const { return fmt::format("shell 0 on {}", plan_.leader); }
  [[nodiscard]] std::string subject() const {
    if (plan_.srun) return "srun";
    std::string shell = leader_text();
    return through_agent_ ? fmt::format("{}, which has started {},", name_, shell) : shell;
  }

  void look() {
    const std::optional<char> state = process_state(process_->pid());
    auto report = standstill_.update(state, event::clock_now().count());
    if (report) print_err("{}: {} {}\n", plan_.record.front, subject(), *report);
    // If it went on it would find that another shell leads, and end. Over ssh its guard kills it once its agent has
    // gone.
    const bool is_here = plan_.follow && !plan_.srun && !through_agent_;
    const bool is_led_here =
        is_here && stands_still(state) && has_another_leader(plan_.record.job, process_->pid());
    if (is_led_here || (stands_still_there_ && has_leader_elsewhere(*plan_.follow)))
      ::kill(process_->pid(), SIGKILL);
    // A debugger may attach at any time.
    if (debugger_asks() && !is_shown_ && !holds_tasks_) to_show_->start(kToShow, kToShow);
  }

  // On another host the leader's guard sees that it stands still, and says so on standard error.
  void note_standstill(std::string_view bytes) {
    auto says = [&](std::string_view what) {
      return bytes.find(fmt::format("nacre-shell[0]: {} {}", leader_text(), what)) != std::string_view::npos;
    };
    if (says(Standstill::kStopped)) stands_still_there_ = true;
    if (says(Standstill::kGoesOn)) stands_still_there_ = false;
  }

  // ---- debuggers: MPIR ------------------------------------------------------------

  void show_tasks() {
    auto processes = mpir_processes(plan_.record.job);
    if (!processes) {
      if (++looks_ == kTellNotShown)
        print_err("{}: MPIR: the tasks are not known yet: {}\n", plan_.record.front, processes.error().message);
      return;
    }
    to_show_->stop();
    is_shown_ = true;
    show_to_debugger(*std::move(processes));
    if (std::exchange(holds_tasks_, false)) feed_->signal(SIGCONT);
  }

  // When a terminal is closed srun gets the signal as well, and kills the shells. Returns that signal.
  [[nodiscard]] std::optional<int> taken_by_srun() const {
    bool killed = plan_.srun && process_->status().job_code() == value::kSignalBase + SIGKILL;
    return killed ? signals_.terminated_since((event::clock_now() - kToEnd).count()) : std::nullopt;
  }

  [[nodiscard]] int code_of(const value::WaitStatus& status) {
    if (status.is_signal()) print_err("{}: {} was {}\n", plan_.record.front, subject(), status.str());
    if (through_agent_) tell_without_shell(status);
    if (!through_agent_ || status.job_code() != kAgentFailed) return status.job_code();
    print_err(
        "{}: {}: {} has failed (exit code {}): no shell was started there, it was killed, or the link to it "
        "broke\n",
        plan_.record.front, plan_.leader, name_, kAgentFailed);
    return 1;
  }

  void tell_without_shell(const value::WaitStatus& status) {
    const std::string remedy = launch::remedy_without_shell(status, plan_.leader);
    if (remedy.empty() || plan_.quiet || !lacks_shell()) return;
    print_err("{}: {}: exit code {} by {}{}\n", plan_.record.front, plan_.leader, status.exit_code(), name_,
              remedy);
  }

  // The job's code may also be that of a task, so the leader's host is asked once more for a shell.
  [[nodiscard]] bool lacks_shell() {
    std::vector<std::string> words = plan_.record.shell;
    words.emplace_back("--version");
    auto command = launch::agent_command(plan_.record.agent, plan_.leader, words);
    bool late = false;
    auto timer = event::Timer::create(*loop_, [&late] { late = true; });
    if (!command || !timer) return false;
    task::Subprocess::Options options;
    options.streams = {};
    auto asked = task::Subprocess::start(*loop_, *children_, *std::move(command), std::move(options), {});
    if (!asked) return false;
    timer->start(kToTry);
    loop_->run_until([&] { return late || (*asked)->exited() || signals_.ended_by(); });
    if ((*asked)->exited()) return !launch::remedy_without_shell((*asked)->status(), plan_.leader).empty();
    static_cast<void>((*asked)->kill(SIGTERM));
    return false;
  }

  LaunchPlan plan_;
  std::string name_;
  bool through_agent_ = false;
  std::unique_ptr<event::Loop> loop_;
  std::unique_ptr<event::Children> children_;
  std::vector<event::SignalWatcher> watchers_;
  std::optional<event::Timer> to_show_, to_end_, to_take_, to_stop_, look_, to_ask_, to_join_, to_tell_,
      to_leave_step_, to_want_;
  std::unique_ptr<task::Subprocess> process_;
  task::BufferedStream* to_ = nullptr;  // its standard input
  std::unique_ptr<launch::LaunchFeed> feed_;
  std::unique_ptr<LaunchReports> reports_;
  bool drops_output_ = false;  // srun writes output, but there is no standard output
  bool dropped_ = false;
  launch::InputTail sent_;  // if another leader may have to be followed
  LaunchSignals signals_;
  Standstill standstill_;
  bool stands_still_there_ = false;  // the leader, on another host
  SrunErrors srun_errors_;
  bool joined_ = false;                     // all shells have; reported if srun has started them
  bool follows_ = false;                    // the leader is lost, and another one is joined
  std::optional<launch::NextLeader> told_;  // the shell that says it leads now; only if srun has started the shells
  std::optional<launch::NextLeader>
      wanted_;                         // the shell that says it would lead; only if srun has started the shells
  value::Idset without_;               // shells without which this process has let the job go on
  bool searches_ = false;              // another leader is looked for
  std::vector<int> kept_signals_;      // signals that came during the search, for the next leader
  std::optional<int> interrupted_by_;  // the signal that has ended the search
  bool has_ended_ = false;             // likewise the job ...
  std::optional<int> code_{};          // ... and its exit code
  bool unjoined_ = false;              // the job was ended, as they never would
  bool ends_step_ = false;             // srun is made to end, as shells may stand still
  int untaken_ = 0;                    // a signal that was passed on and that the job may not have got; 0: none
  std::uint64_t to_be_taken_ =
      0;  // bytes written to it, up to the end of the last signal that has to be read in time
  event::Seconds stops_at_{};
  event::Seconds asks_until_{};
  bool asks_ = false;     // the leader, to let this process leave
  bool left_ = false;     // the job goes on without this process
  bool hung_up_ = false;  // the terminal has gone
  // For a debugger: tasks stand still until it has seen them; it has seen them; how often they were asked for.
  bool holds_tasks_ = false;
  bool is_shown_ = false;
  int looks_ = 0;
};

}  // namespace

Result<int> launch(LaunchPlan plan) {
  // The process's end shows a broken pipe. A terminal that another process group has is read again later.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGTTIN, SIG_IGN);
  auto run = TRY(LaunchRun::create(std::move(plan)));
  int code = run->wait();
  block_ending_signals();  // before the watchers are destroyed
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

namespace {

// So that ssh knows of a host without power before shells that wait for this process have waited too long.
Result<void> keep_alive(const job::Options& options, std::vector<std::string>& agent) {
  constexpr double kUsual = 5;  // seconds
  const std::vector<std::string> usual = launch::ssh_agent();
  if (agent.size() < usual.size() || agent[0] != usual[0]) return {};
  auto option = options.at("lost-after");
  const double lost_after = option ? TRY(job::seconds_option(*option)).seconds() : kUsual;
  const int interval = static_cast<int>(std::clamp(lost_after, 1.0, kUsual));
  agent.insert(agent.end() - static_cast<std::ptrdiff_t>(usual.size() - 1),  // ssh takes the first one
               {fmt::format("-oServerAliveInterval={}", interval), "-oServerAliveCountMax=3"});
  return {};
}

// What is no value of the option is named by the shell.
int code_of_lost_host(const job::Options& options) {
  auto option = options.at("exit-class");
  auto text = option ? option->string() : Result<std::string>("");
  auto classes = exits::ExitClasses::parse(text.value_or(""));
  return classes ? classes->code_of(exits::FailureClass::host).value_or(1) : 1;
}

}  // namespace

Result<void> read_on_leader_lost(const job::Options& options, bool label, LaunchPlan& plan) {
  const bool stays = !plan.in_pod && plan.record.detaching != launch::Detaching::at_start && !plan.outlived;
  const job::OnLost on_lost = TRY(job::OnLost::read(options));
  // Of two shells this process says which goes on, if it stays. Where the job ends, another leader tells how.
  const bool goes_on = on_lost.replaces || on_lost.goes_on;
  const std::uint32_t least = stays && goes_on ? 2 : 3;  // shells
  const bool is_meant = options.find("on-leader-lost") == nullptr && plan.record.size >= least;
  const bool takes_over = is_meant || TRY(job::OnLeaderLost::read(options)).takes_over;
  const bool is_found = options.find("control") == nullptr || options.flag("control").value_or(true);
  if (!takes_over || (!is_found && !plan.in_pod)) return {};
  if (plan.in_pod || plan.record.detaching == launch::Detaching::at_start) {  // nobody follows
    if (is_meant) plan.record.options.emplace_back("on-leader-lost=take-over");
    return {};
  }
  std::vector<std::string>& agent = plan.record.agent;
  CHECK_OK(keep_alive(options, agent));
  FollowPlan follow;
  follow.job = plan.record.job;
  follow.front = plan.record.front;
  follow.hosts = plan.record.hosts.names();
  follow.agent = agent;
  const std::filesystem::path shell = plan.record.shell.front();
  follow.program = shell.has_parent_path() ? (shell.parent_path() / "nacre").native() : "nacre";
  follow.label = label;
  follow.quiet = plan.quiet;
  follow.lost_code = code_of_lost_host(options);
  plan.follow = std::move(follow);
  plan.record.options.emplace_back("on-leader-lost=take-over,followed");
  // A leader on this host writes the other reports itself, whichever shell it is.
  const bool are_here = plan.record.agent.empty() && !plan.srun;
  for (const LaunchReport& each : plan.reports) {
    if (!are_here || !each.is_path) plan.record.options.back() += "," + each.channel;
  }
  return {};
}

void let_leave(const job::Options& options, LaunchPlan& plan) {
  const auto& words = plan.record.shell;
  bool explains = std::any_of(words.begin(), words.end(),
                              [](const std::string& each) { return each.starts_with("--explain"); });
  // The shell reports values that are not allowed.
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
  // This process's own step holds the allocation's resources, and a step within it would wait for them.
  if (own_variable("SLURM_STEP_ID") || own_variable("SLURM_STEPID")) argv.emplace_back("--overlap");
  argv.insert(argv.end(), plan.srun->begin(), plan.srun->end());
  argv.insert(argv.end(), words.begin(), words.end());
  task::Command command = TRY(launch::agent_command({}, "localhost", argv));
  command.env.set(job::BatchSystem::kStepSurvives, "1");
  return command;
}

// ---- launch reports ---------------------------------------------------------------------

namespace {

std::optional<int> descriptor_in(const std::string& to) {
  auto number = parse_u64(to);
  return number && *number <= INT32_MAX ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// No descriptor: it is a FIFO that nobody has opened for reading.
Result<UniqueFd> opened(const std::string& path, bool appends) {
  UniqueFd fd(::open(
      path.c_str(), O_WRONLY | O_CREAT | (appends ? O_APPEND : O_TRUNC) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  if (!fd && errno != ENXIO) return system_error(errno, path);
  return fd;
}

}  // namespace

// This process sets close-on-exec on each descriptor that it opens itself: such a descriptor is not the one that
// the user means.
Result<void> check_report_place(const std::string& to) {
  if (to.empty()) return invalid("expected a file or a descriptor");
  auto fd = descriptor_in(to);
  if (!fd) return {};
  int flags = ::fcntl(*fd, F_GETFD);
  bool is_given = flags >= 0 && (*fd <= STDERR_FILENO || (flags & FD_CLOEXEC) == 0);
  if (!is_given) return invalid(fmt::format("descriptor {} is not open", *fd));
  if (!is_writable(*fd)) return invalid(fmt::format("descriptor {} is not open for writing", *fd));
  return {};
}

Result<std::unique_ptr<LaunchReports>> LaunchReports::create(event::Loop& loop, const std::string& front,
                                                             const std::vector<LaunchReport>& wanted,
                                                             bool has_child, Watch watch) {
  std::unique_ptr<LaunchReports> out(new LaunchReports(loop, front));
  out->watch_ = std::move(watch);
  for (const LaunchReport& each : wanted) CHECK_OK(in(each.option, out->open(each, has_child)));
  if (!has_child && (out->watch_.filter || !out->files_.empty())) CHECK_OK(out->carry());
  return out;
}

void LaunchReports::warn(const std::string& option, std::string_view why) const {
  print_err("{}: {}: {}: nothing more is written there\n", front_, option, why);
}

Result<void> LaunchReports::open(const LaunchReport& report, bool has_child) {
  auto file = std::make_unique<File>();
  file->option = report.option;
  file->channel = report.channel;
  file->appends = report.channel == "joblog";
  auto number = report.is_path ? std::nullopt : descriptor_in(report.to);
  file->name = number ? fmt::format("descriptor {}", *number) : report.to;
  UniqueFd fd;
  if (number) {
    fd = UniqueFd(::fcntl(*number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!fd) return system_error(errno, file->name);
  } else if (has_child && report.is_path) {
    file->path = std::filesystem::absolute(report.to).native();
  } else if (has_child) {
    fd = TRY(opened(report.to, report.appends));
    if (!fd) file->path = std::filesystem::absolute(report.to).native();
  }
  if (has_child) {
    file->given = std::move(fd);
  } else {
    file->file = TRY(open_file(std::move(fd), *file, report.to, report.appends));
  }
  files_.push_back(std::move(file));
  return {};
}

// `fd`: none opens the file of this path.
Result<std::unique_ptr<io::MessageFile>> LaunchReports::open_file(UniqueFd fd, const File& of,
                                                                  const std::string& path, bool appends) {
  io::MessageFile::Callbacks callbacks;
  callbacks.on_error = [this, option = of.option](const Error& error) { warn(option, error.message); };
  if (fd) return io::MessageFile::of(loop_, std::move(fd), of.name, std::move(callbacks));
  return io::MessageFile::open(loop_, path, std::move(callbacks), appends);
}

Result<void> LaunchReports::carry() {
  carriage_ = TRY(launch::Carriage::with_new_token());
  for (const auto& each : files_) carriage_.channels.push_back(each->channel);
  io::FdSink::Callbacks sink;
  sink.on_room = [this] { read(); };
  stderr_ = TRY(io::FdSink::create(loop_, STDERR_FILENO, "standard error", {}, std::move(sink)));
  launch::CarriageReader::Callbacks callbacks;
  callbacks.on_other = [this](std::string_view bytes) { pass_on(bytes); };
  callbacks.on_message = [this](std::string_view channel, std::string_view message) { deliver(channel, message); };
  callbacks.on_loss = [this] {
    if (!std::exchange(lost_, true))
      print_err("{}: {}: a part was lost on its way here\n", front_, fmt::join(carriage_.channels, ", "));
  };
  reader_.emplace(carriage_.token, std::move(callbacks), watch_.is_labelled);
  return {};
}

void LaunchReports::add_to(task::Command& command, launch::LaunchRecord& record) const {
  for (const auto& each : files_) {
    if (each->given) {
      int target = command.setup.unused_target();
      command.setup.fds.push_back({target, each->given.get()});
      record.options.push_back(fmt::format("{}={}", each->channel, target));
    } else if (!each->path.empty()) {
      record.options.push_back(fmt::format("{}={}", each->channel, each->path));
    }
  }
  if (!is_carried()) return;
  record.carriage = carriage_;
  command.stream_options["stderr_LINE_BUFFER"] = "false";
}

void LaunchReports::on_ready(task::BufferedStream& from) {
  from_ = &from;
  read();
}

// Pauses while standard error does not take what is passed on.
void LaunchReports::read() {
  if (from_ == nullptr) return;
  while (!stderr_->full()) {
    std::string_view bytes = from_->read();
    if (bytes.empty()) break;
    reader_->take(bytes);
  }
  if (stderr_->full())
    from_->pause();
  else if (from_->paused())
    static_cast<void>(from_->resume());
}

// If nobody reads standard error the bytes are dropped, as if the agent had written them there.
void LaunchReports::pass_on(std::string_view bytes) {
  std::string filtered;
  if (watch_.filter) bytes = filtered = watch_.filter(bytes);
  write(bytes);
}

void LaunchReports::write(std::string_view bytes) {
  std::array pieces{bytes};
  if (!bytes.empty()) static_cast<void>(stderr_->write(pieces));
}

void LaunchReports::deliver(std::string_view channel, std::string_view message) {
  if (channel == launch::Carriage::kJoined && watch_.on_joined) watch_.on_joined();
  if (channel == launch::Carriage::kEnded && watch_.on_ended) watch_.on_ended(message);
  if (channel == launch::Carriage::kSignal && watch_.on_signal) watch_.on_signal(message);
  if (channel == launch::Carriage::kLeads && watch_.on_leads) watch_.on_leads(message);
  if (channel == launch::Carriage::kWanted && watch_.on_wanted) watch_.on_wanted(message);
  if (channel == launch::Carriage::kHalf && watch_.on_half) watch_.on_half(message);
  for (const auto& each : files_) {
    if (each->channel == channel) each->file->write(message);
  }
}

// A report that a child wrote into goes on where the child has stopped.
void LaunchReports::go_on(std::string_view channel, std::string_view text) {
  for (const auto& each : files_) {
    if (each->channel != channel) continue;
    if (!each->file) {
      auto file = open_file(std::move(each->given), *each, each->path, each->appends);
      if (!file) return warn(each->option, file.error().message);
      each->file = *std::move(file);
    }
    each->file->write(text);
  }
}

void LaunchReports::finish(const std::function<bool()>& is_complete) {
  if (!is_carried()) return;
  bool late = false;
  auto timer = event::Timer::create(loop_, [&late] { late = true; });
  if (!timer) return;
  timer->start(kLastWords);
  loop_.run_until([&] { return late || is_complete(); });
  from_ = nullptr;
  reader_->end();
  if (watch_.at_end) write(watch_.at_end());
  flush();
}

void LaunchReports::flush() {
  bool late = false;
  auto timer = event::Timer::create(loop_, [&late] { late = true; });
  if (!timer) return;
  timer->start(kWaitAtEnd);
  auto idle = [](const auto& each) { return !each->file || each->file->idle(); };
  auto is_done = [&] {
    return (!stderr_ || stderr_->flushed()) && std::all_of(files_.begin(), files_.end(), idle);
  };
  loop_.run_until([&] { return late || is_done(); });
  for (const auto& each : files_) {
    if (idle(each)) continue;
    warn(each->option,
         fmt::format("{}: {} within {} s of the job's end", each->name,
                     each->file->lacks_reader() ? "nobody has opened it" : "nobody has read all of it",
                     kWaitAtEnd.count()));
  }
}

// ---- launch signals ---------------------------------------------------------------------

bool LaunchSignals::ends_programs(int signum) {
  return signum == SIGINT || signum == SIGTERM || signum == SIGHUP || signum == SIGQUIT;
}

LaunchSignals::Act LaunchSignals::on_signal(int signum, double now, bool begun) {
  if (!ends_programs(signum)) return Act::pass;
  bool again = false;
  if (signum == SIGINT) {
    auto before = std::exchange(interrupted_, now);
    again = before && now - *before < kTwice;
  } else {
    auto [first, is_first] = terminated_.try_emplace(signum, now);
    again = !is_first && now - first->second >= kApart;
  }
  if (ended_by_) return again ? Act::kill : Act::pass;
  if (begun && !again) return Act::pass;
  ended_by_ = signum;
  return begun ? Act::end : Act::cancel;
}

std::optional<int> LaunchSignals::terminated_since(double since) const {
  for (const auto& [signum, first] : terminated_) {
    if (first >= since) return signum;
  }
  return {};
}

void LaunchSignals::end_by(int signum) {
  if (!ended_by_) ended_by_ = signum;
}

// ---- srun errors ------------------------------------------------------------------------

namespace {

constexpr std::string_view kError = "srun: error: ";

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

struct ShellsEnd {
  value::Idset shells;
  std::string_view how;
};

// Parses "srun: error: HOSTS: task N: HOW" or "srun: error: HOSTS: tasks N-M,...: HOW"; none: it is no such line.
std::optional<ShellsEnd> end_in(std::string_view line) {
  if (!take_front(line, kError)) return {};
  std::size_t hosts = line.find(": ");
  if (hosts == 0 || hosts == std::string_view::npos || line.find(' ') < hosts) return {};
  line.remove_prefix(hosts);
  if (!take_front(line, ": task ") && !take_front(line, ": tasks ")) return {};
  std::size_t end = line.find(": ");
  auto shells = value::Idset::parse(line.substr(0, end));
  if (end == std::string_view::npos || !shells || shells->empty()) return {};
  return ShellsEnd{*std::move(shells), line.substr(end + 2)};
}

// The signal that has ended a shell, or that it has handled, of strsignal(3)'s words or of an exit code.
std::optional<int> signal_of(std::string_view how) {
  for (int signum : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    std::string_view name = ::sigdescr_np(signum);
    if (how == name || how == fmt::format("{} (core dumped)", name) ||
        how == fmt::format("Exited with exit code {}", value::kSignalBase + signum))
      return signum;
  }
  return std::nullopt;
}

}  // namespace

bool SrunErrors::may_be_kept() const {
  auto begins_alike = [this](std::string_view front) {
    return front.starts_with(line_) || std::string_view(line_).starts_with(front);
  };
  if (ends_step_) return begins_alike("srun: ") || begins_alike("slurmstepd: ");
  return begins_alike(kError);
}

// A line has ended: returns whether it is kept.
bool SrunErrors::take_line() {
  auto end = end_in(std::string_view(line_).substr(0, line_.size() - 1));
  if (!end && !(ends_step_ && may_be_kept())) return false;
  if (end) ended_.insert(end->shells);
  if (end && !signal_) signal_ = signal_of(end->how);
  if (!keeps_ && !ends_step_) return false;
  if (kept_.size() + line_.size() <= kMaxKept) kept_ += line_;
  return true;
}

std::string SrunErrors::take(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    std::size_t end = bytes.find('\n');
    std::string_view piece = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
    bytes.remove_prefix(piece.size());
    if (passes_line_) {
      out += piece;
      passes_line_ = end == std::string_view::npos;
      continue;
    }
    line_ += piece;
    bool is_whole = end != std::string_view::npos;
    if (!is_whole && may_be_kept() && line_.size() <= kMaxLine) break;
    if (!is_whole || !take_line()) out += line_;
    passes_line_ = !is_whole;
    line_.clear();
  }
  return out;
}

bool labels_lines(const std::vector<std::string>& arguments) {
  if (std::getenv("SLURM_LABELIO") != nullptr) return true;
  // As getopt_long(3) takes it: shortened, or with others of one letter that have no value.
  constexpr std::string_view kLong = "--label", kShort = "lvqQsuXEKOHIkZ";
  return std::any_of(arguments.begin(), arguments.end(), [&](std::string_view each) {
    if (each.starts_with("--")) return each.size() >= 4 && kLong.starts_with(each);
    return each.starts_with('-') && each.find('l') != each.npos && each.find_first_not_of(kShort, 1) == each.npos;
  });
}

}  // namespace nacre::front
