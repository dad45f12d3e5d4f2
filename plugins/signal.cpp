// SPDX-License-Identifier: Apache-2.0
//
// signal: a warning before the job's time is up. {"signum": N, "timeleft": T} sends signal N to all tasks T before
// R's expiration; a bare `signal` is SIGUSR1 60 s before it.
#include <chrono>
#include <csignal>

#include <fmt/format.h>

#include "job/option_types.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr int kDefaultSignal = SIGUSR1;
constexpr double kDefaultTimeleft = 60;  // seconds
constexpr int kMaxSignal = 64;           // SIGRTMAX of Linux

Result<int> number_of(const JsonAt& signum) {
  if (!signum.json().is_string()) return static_cast<int>(TRY(signum.integer(1, kMaxSignal)));
  int number = value::signal_number(TRY(signum.string()));
  if (number == 0) return signum.expected("a signal's number or name");
  return number;
}

double now() {  // seconds since the epoch, as R's expiration
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Signal final : public plugin::Plugin {
 public:
  explicit Signal(plugin::Host& host) : Plugin("signal"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("shell.start", [this](plugin::Call&) { return arm(); });
    on("shell.finish", [this](plugin::Call&) {
      timer_.reset();
      return Result<void>();
    });
  }

 private:
  Result<void> read() {
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

  // A number that is no switch is meant as a signal: refused, for it would be passed over.
  Result<bool> switched_on(const JsonAt& option) {
    Result<bool> on = host_.options().flag("signal");
    bool number = option.json().is_number() && option.json() != 0 && option.json() != 1;
    if (!on || number) return option.expected(R"(true or false, or {"signum": N, "timeleft": DURATION})");
    return on;
  }

  Result<void> arm() {
    double expiration = host_.job().resources.expiration;
    if (!wanted_) return {};
    if (expiration <= 0) {
      log(host_, *this, Level::debug, "R has no expiration: no signal will be sent");
      return {};
    }
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { send(); }));
    timer_->start(event::Seconds(std::max(0.0, expiration - timeleft_ - now())));
    return {};
  }

  void send() {
    double left = std::max(0.0, host_.job().resources.expiration - now());
    log(host_, *this, Level::notice, "the job expires in {:.0f} s: sending {} to the tasks", left,
        value::signal_name(signum_));
    host_.kill_tasks(signum_);
  }

  plugin::Host& host_;
  bool wanted_ = false;
  int signum_ = kDefaultSignal;
  double timeleft_ = kDefaultTimeleft;
  std::optional<event::Timer> timer_;
};

}  // namespace

PluginPtr make_signal(plugin::Host& host) { return std::make_unique<Signal>(host); }

}  // namespace nacre::plugins
