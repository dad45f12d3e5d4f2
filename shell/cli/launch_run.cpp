// SPDX-License-Identifier: Apache-2.0
#include "cli/launch_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "base/print.hpp"
#include "base/text.hpp"
#include "boot/launch_stream.hpp"
#include "boot/launcher.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "task/subprocess.hpp"
#include "value/wait_status.hpp"

namespace nacre::cli {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr int kEndsJob[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr event::Seconds kTwice{2};  // between two of those that mean it
// For a job that was told to end, before its agent is killed: longer than it takes to miss a shell.
constexpr event::Seconds kToEnd{10};
constexpr int kAgentFailed = 255;  // what ssh exits with then

// The one process that `nacre launch` looks after.
class LaunchRun {
 public:
  static Result<std::unique_ptr<LaunchRun>> create(LaunchPlan plan) {
    std::unique_ptr<LaunchRun> out(new LaunchRun(std::move(plan)));
    out->loop_ = TRY(event::Loop::create());
    out->children_ = TRY(event::Children::create(*out->loop_, {}));
    out->to_end_ = TRY(event::Timer::create(*out->loop_, [self = out.get()] { self->kill(); }));
    out->to_end_->unref();
    for (int signum : kPassedOn) {
      auto watcher = TRY(event::SignalWatcher::create(*out->loop_, signum,
                                                      [self = out.get()](int each) { self->on_signal(each); }));
      watcher.keeps_running(false);
      out->signals_.push_back(std::move(watcher));
    }
    CHECK_OK(out->start());
    return out;
  }

  int wait() {
    loop_->run_until([this] { return process_->exited(); });
    feed_.reset();
    return code_of(process_->status());
  }

 private:
  explicit LaunchRun(LaunchPlan plan) : plan_(std::move(plan)) {}

  Result<void> start() {
    task::Command command = TRY(launch_command(plan_));
    name_ = command.argv[0];
    through_agent_ = !plan_.srun && !plan_.record.agent.empty() && !boot::is_this_host(plan_.leader);
    if (plan_.verbose)
      print_err("nacre launch: {} shells; starting {}\n", plan_.record.size, fmt::join(command.argv, " "));
    auto secret = TRY(transport::Secret::generate());
    std::string lines = boot::launch_lines(secret, plan_.record);
    command.stream_options["stdin_BUFSIZE"] = std::to_string(lines.size() + task::Stream::kBufferSize);
    task::Subprocess::Options options;
    options.streams = {"stdin"};
    options.inherit_stdio = true;
    task::Subprocess::Callbacks callbacks;
    callbacks.on_room = [this](const std::string&, std::size_t) {
      if (feed_) feed_->on_room();
    };
    auto process =
        task::Subprocess::start(*loop_, *children_, std::move(command), std::move(options), std::move(callbacks));
    if (!process) return in(plan_.srun ? "--srun" : plan_.leader, Error(process.error().error));
    process_ = std::move(*process);
    task::Stream* to = process_->stream("stdin");
    static_cast<void>(to->write(lines));  // one that has gone already is told by its end
    transport::wipe(lines);
    feed_ = TRY(boot::LaunchFeed::create(*loop_, *to, plan_.input));
    return {};
  }

  void on_signal(int signum) {
    bool ends = std::find(std::begin(kEndsJob), std::end(kEndsJob), signum) != std::end(kEndsJob);
    double now = event::clock_now().count();
    bool again = ends && now - asked_to_end_ < kTwice.count();
    if (ends) asked_to_end_ = now;
    if (again) return end(signum);
    feed_->signal(signum);
  }

  // The leader ends its job when its launcher is gone. Asked once more, nobody waits for that.
  void end(int signum) {
    if (std::exchange(ending_, true)) return kill();
    print_err("nacre launch: {}: ending the job\n",
              signum == SIGINT ? "interrupted twice" : "a second " + value::signal_name(signum));
    feed_->signal(SIGKILL);
    process_->stream("stdin")->close();
    to_end_->start_grace(kToEnd);
  }

  void kill() { static_cast<void>(process_->kill(SIGKILL)); }

  [[nodiscard]] int code_of(const value::WaitStatus& status) const {
    if (!through_agent_ || status.job_code() != kAgentFailed) return status.job_code();
    print_err(
        "nacre launch: {}: {} has failed (exit code {}): no shell was started there, or the link to it broke\n",
        plan_.leader, name_, kAgentFailed);
    return 1;
  }

  LaunchPlan plan_;
  std::string name_;
  bool through_agent_ = false;
  std::unique_ptr<event::Loop> loop_;
  std::unique_ptr<event::Children> children_;
  std::vector<event::SignalWatcher> signals_;
  std::optional<event::Timer> to_end_;
  std::unique_ptr<task::Subprocess> process_;
  std::unique_ptr<boot::LaunchFeed> feed_;
  double asked_to_end_ = -kTwice.count();
  bool ending_ = false;
};

}  // namespace

Result<int> launch(LaunchPlan plan) {
  // A shell that has gone is told by its end; a terminal that others have is asked again later.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGTTIN, SIG_IGN);
  auto run = TRY(LaunchRun::create(std::move(plan)));
  return run->wait();
}

Result<task::Command> launch_command(const LaunchPlan& plan) {
  std::vector<std::string> words = plan.record.shell;
  words.emplace_back(plan.srun ? "--boot=slurm" : "--boot=hosts");
  if (!plan.srun) return boot::agent_command(plan.record.agent, plan.leader, words);
  // The shells themselves say how the job ends.
  std::vector<std::string> argv{"srun",
                                "--mpi=none",
                                "--ntasks-per-node=1",
                                fmt::format("--nodes={}", plan.record.size),
                                fmt::format("--ntasks={}", plan.record.size),
                                "--kill-on-bad-exit=0"};
  argv.insert(argv.end(), plan.srun->begin(), plan.srun->end());
  argv.insert(argv.end(), words.begin(), words.end());
  task::Command command = TRY(boot::agent_command({}, "localhost", argv));
  return command;
}

}  // namespace nacre::cli
