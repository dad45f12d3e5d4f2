// SPDX-License-Identifier: Apache-2.0
//
// time-limit: ends the job when its time is over. Its tasks then count as 124, whatever they make of SIGTERM (exits::Record,
// `t`). The time is the option's, from the start of the tasks; or else R's expiration; or else the jobspec's duration, from the start of
// the tasks. Shell 0 alone measures it.
#include <fmt/format.h>

#include "base/json.hpp"
#include "event/clock.hpp"
#include "job/option_types.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

class TimeLimit final : public plugin::Plugin {
 public:
  explicit TimeLimit(plugin::Host& host) : Plugin("time-limit"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("shell.start", [this](plugin::Call&) { return arm(); });
    on("job.tasks-exited", [this](plugin::Call& call) { return tasks_exited(call); });
    on("shell.tasks-complete", [this](plugin::Call&) {
      timer_.reset();
      return Result<void>();
    });
  }

 private:
  struct Limit {
    double seconds;    // from now
    std::string what;  // for the message
  };

  Result<void> read() {
    auto option = host_.options().at(name());
    if (!option) return {};
    if (option->json() == "none") {
      wanted_ = value::Duration::infinite();
    } else {
      wanted_ = TRY(job::seconds_option(*option));
      if (wanted_->seconds() <= 0) return option->expected("a time that is not 0, or none");
    }
    return {};
  }

  [[nodiscard]] std::optional<Limit> limit() const {
    const job::Job& job = host_.job();
    if (wanted_) {
      if (wanted_->is_infinite()) return {};
      return Limit{wanted_->seconds(), fmt::format("time-limit: {} are over", wanted_->str())};
    }
    if (double end = job.resources.expiration; end > 0) {
      return Limit{std::max(0.0, end - event::wall_clock()), "R has expired"};
    }
    if (job.spec.duration <= 0) return {};
    auto duration = value::Duration::of_seconds(job.spec.duration);
    return Limit{job.spec.duration, fmt::format("the jobspec's duration of {} is over", duration.str())};
  }

  Result<void> arm() {
    if (host_.job().shell_rank != 0) return {};
    auto limit = this->limit();
    if (!limit) {
      log(host_, *this, Level::debug, "the job has no time limit");
      return {};
    }
    timer_ = TRY(event::Timer::create(host_.loop(), [this, what = limit->what] { expired(what); }));
    timer_->start(event::Seconds(limit->seconds));
    return {};
  }

  Result<void> tasks_exited(const plugin::Call& call) {
    over_ = over_ | TRY(value::Idset::parse(TRY(TRY(JsonAt::root(call.in).at("ranks")).string())));
    return {};
  }

  void expired(const std::string& what) {
    auto last = static_cast<value::Idset::Id>(host_.job().tasks() - 1);
    value::Idset running = value::Idset::range(0, last) - over_;
    if (!running.empty())
      host_.raise(
          {"timeout", 0, fmt::format("{}, and these tasks still run: {}", what, running.str()), std::nullopt});
  }

  plugin::Host& host_;
  std::optional<value::Duration> wanted_;
  value::Idset over_;  // tasks
  std::optional<event::Timer> timer_;
};

}  // namespace

PluginPtr make_time_limit(plugin::Host& host) { return std::make_unique<TimeLimit>(host); }

}  // namespace nacre::plugins
