// SPDX-License-Identifier: Apache-2.0
//
// signal: a warning before the job's time is up. {"signum": N, "timeleft": T} sends signal N to all tasks T before
// its earliest end (job::earliest_end); a bare `signal` is SIGUSR1 60 s before it. An older Slurm has no variable
// for the end of a job, so squeue is asked. Shell 0 measures the time, and sends it to all shells.

#include "base/program.hpp"
#include "base/text.hpp"
#include "event/timers.hpp"
#include "job/options.hpp"
#include "plugins/builtins.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {
namespace {

constexpr int kDefaultSignal = SIGUSR1;
constexpr double kDefaultTimeleft = 60;              // seconds
constexpr int kMaxSignal = 64;                       // SIGRTMAX of Linux
constexpr std::string_view kSignalTopic = "signal";  // an announcement: the signal's number

Result<int> number_of(const JsonAt& signum) {
  if (!signum.json().is_string()) return static_cast<int>(TRY(signum.integer(1, kMaxSignal)));
  int number = value::signal_number(TRY(signum.string()));
  if (number == 0) return signum.expected("a signal's number or name");
  return number;
}

class Signal final : public plugin::Plugin {
 public:
  explicit Signal(plugin::Host& host) : Plugin("signal"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("shell.start", [this] {
      began_ = event::wall_clock();
      return arm();
    });
    on("job.leader", [this] { return began_ > 0 ? arm() : Result<void>(); });
    on("shell.finish", [this] {
      if (!leads_others()) forget();
    });
    on("shell.tasks-complete", [this] { forget(); });
  }

 private:
  [[nodiscard]] bool leads_others() const { return host_.bulk() != nullptr && host_.job().leads(); }

  void forget() {
    timer_.reset();
    slurm_.reset();
  }

  Result<void> read() {
    announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
      auto number = topic == kSignalTopic ? parse_u64(bytes) : std::nullopt;
      if (number && *number >= 1 && *number <= kMaxSignal) host_.kill_tasks(static_cast<int>(*number));
    });
    auto option = host_.options().at("signal");
    if (!option) return {};
    if (!option->json().is_object()) {
      wanted_ = TRY(switched_on(*option));
      return {};
    }
    CHECK_OK(option->only_keys({"signum", "timeleft"}));
    wanted_ = true;
    if (auto signum = TRY(option->find("signum"))) signum_ = TRY(number_of(*signum));
    if (auto timeleft = TRY(option->find("timeleft"))) timeleft_ = TRY(job::seconds_option(*timeleft)).seconds();
    return {};
  }

  // A number that is no switch is meant as a signal: it is refused, as it would have no effect.
  Result<bool> switched_on(const JsonAt& option) {
    Result<bool> on = host_.options().flag("signal");
    bool number = option.json().is_number() && option.json() != 0 && option.json() != 1;
    if (!on || number) return option.expected(R"(on or off, or {"signum": N, "timeleft": DURATION})");
    return on;
  }

  Result<void> arm() {
    const job::Job& job = host_.job();
    if (!wanted_ || (host_.bulk() != nullptr && !job.leads())) return {};
    auto manager = job::manager_end(own_variable);
    if (!manager) log(host_, *this, Level::warn, "{}; it is passed over", manager.error().message);
    auto limit = TRY(job::time_limit(host_.options()));
    arm_for(job::earliest_end(job.resources, manager.value_or(std::nullopt), limit, job.spec.duration, began_));
    auto id = own_variable("SLURM_JOB_ID");
    if (id && manager && !*manager) return ask_slurm(*id);
    if (!end_) warn_of_no_end("");
    return {};
  }

  // The earlier of several ends counts.
  void arm_for(const std::optional<job::EndTime>& end) {
    if (!end || (end_ && *end_ <= end->at)) return;
    end_ = end->at;
    auto timer = event::WallTimer::start(host_.loop(), *end_ - timeleft_, [this] { send(*end_); });
    if (timer)
      timer_ = std::move(*timer);
    else
      log(host_, *this, Level::error, "{}: no signal will be sent", timer.error().message);
  }

  Result<void> ask_slurm(const std::string& job) {
    task::CommandRun::What what{"squeue", {"squeue", "-h", "-j", job, "-o", "%L"}};
    what.ends_with_shell = true;
    slurm_.emplace(host_.loop(), host_.children());
    Result<void> started = slurm_->start(what, [this](const Result<std::string>& told) {
      auto left = told ? in("squeue", job::parse_slurm_time_left(*told)) : told.error();
      if (left && *left) arm_for(job::EndTime{event::wall_clock() + **left, ""});
      if (!end_) warn_of_no_end(left ? "" : fmt::format(" ({})", left.error().message));
    });
    if (!started && !end_) warn_of_no_end(fmt::format(" ({})", started.error().message));
    return {};
  }

  void warn_of_no_end(const std::string& why) {
    log(host_, *this, Level::warn,
        "no signal will be sent, as nothing says when the job's time is over{}: no time-limit, duration or "
        "expiration, and no limit of the manager's",
        why);
  }

  void send(double end) {
    double left = std::max(0.0, end - event::wall_clock());
    log(host_, *this, Level::notice, "the job expires in {:.0f} s: sending {} to the tasks", left,
        value::signal_name(signum_));
    if (Result<void> sent = host_.announce(kSignalTopic, fmt::format_int(signum_).str()); !sent)
      log(host_, *this, Level::error, "{}: {}", value::signal_name(signum_), sent.error().message);
  }

  plugin::Host& host_;
  double began_ = 0;  // when the tasks have started, seconds since the Epoch; 0: not yet
  bool wanted_ = false;
  int signum_ = kDefaultSignal;
  double timeleft_ = kDefaultTimeleft;
  std::optional<double> end_;  // seconds since the Epoch
  std::optional<event::WallTimer> timer_;
  std::optional<task::CommandRun> slurm_;  // squeue
  plugin::Registration announcements_;
};

}  // namespace

PluginPtr make_signal(plugin::Host& host) { return std::make_unique<Signal>(host); }

}  // namespace nacre::plugins
