// SPDX-License-Identifier: Apache-2.0
//
// time-limit: ends the job when its time is over. Its tasks then count as 124, however they react to SIGTERM
// (exits::Record, `t`). The time is the option's, from the start of the tasks; without the option, R's expiration;
// without that, what ends first: the time that the manager has given (job::manager_end), or the jobspec's duration,
// from the start of the tasks. Shell 0 alone measures it. A Flux instance ends its jobs by itself.

#include "base/program.hpp"
#include "event/timers.hpp"
#include "job/options.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

class TimeLimit final : public plugin::Plugin {
 public:
  explicit TimeLimit(plugin::Host& host) : Plugin("time-limit"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("shell.start", [this] {
      began_ = event::clock_now();
      return arm();
    });
    on("job.leader", [this] { return began_ ? arm() : Result<void>(); });
    on("shell.tasks-complete", [this] {
      timer_.reset();
      wall_timer_.reset();
    });
  }

 private:
  Result<void> read() {
    wanted_ = TRY(job::time_limit(host_.options()));
    return {};
  }

  Result<void> arm() {
    const job::Job& job = host_.job();
    if (!job.leads()) return {};
    if (!wanted_ && host_.instance() != nullptr) return {};
    if (wanted_) return wanted_->is_infinite() ? Result<void>() : arm(*wanted_, "time-limit: {} are over");
    auto end = job::end_time(job.resources, own_variable);
    if (!end) log(host_, *this, Level::warn, "{}; it is passed over", end.error().message);
    bool ends = end && *end;
    bool has_expiration = job.resources.expiration > 0;
    if (ends &&
        (has_expiration || !(job.spec.duration > 0) || (*end)->at - event::wall_clock() < job.spec.duration))
      return arm(**end);
    if (job.spec.duration > 0)
      return arm(value::Duration::of_seconds(job.spec.duration), "the jobspec's duration of {} is over");
    log(host_, *this, Level::debug, "the job has no time limit");
    return {};
  }

  Result<void> arm(const job::EndTime& end) {
    log(host_, *this, Level::debug, "the job has {:.0f} s left, until {}",
        std::max(0.0, end.at - event::wall_clock()), end.over);
    wall_timer_ = TRY(event::WallTimer::start(host_.loop(), end.at, [this, what = end.over] { expired(what); }));
    return {};
  }

  Result<void> arm(const value::Duration& duration, std::string_view over) {
    std::string what = fmt::format(fmt::runtime(over), duration.str());
    log(host_, *this, Level::debug, "the job has {}", duration.str());
    timer_ = TRY(event::Timer::create(host_.loop(), [this, what] { expired(what); }));
    const event::Seconds run = event::clock_now() - *began_;  // when another shell led
    timer_->start(std::max(event::Seconds::zero(), event::Seconds(duration.seconds()) - run));
    return {};
  }

  void expired(const std::string& what) {
    auto last = static_cast<value::Idset::Id>(host_.job().tasks() - 1);
    value::Idset running = value::Idset::range(0, last) - host_.outcomes().ranks();
    if (!running.empty())
      host_.raise(
          {"timeout", 0, fmt::format("{}, and these tasks still run: {}", what, running.str()), std::nullopt});
  }

  plugin::Host& host_;
  std::optional<value::Duration> wanted_;
  std::optional<event::Seconds> began_;
  std::optional<event::Timer> timer_;  // one of the two
  std::optional<event::WallTimer> wall_timer_;
};

}  // namespace

PluginPtr make_time_limit(plugin::Host& host) { return std::make_unique<TimeLimit>(host); }

}  // namespace nacre::plugins
