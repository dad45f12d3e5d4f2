// SPDX-License-Identifier: Apache-2.0
#include "core/restart_together.hpp"

#include <csignal>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace nacre::core {
namespace {

std::string barrier_name(const RestartTogether::Plan& plan) { return fmt::format("restart.{}", plan.restarts); }

}  // namespace

RestartTogether::RestartTogether(plugin::Host& host, const ShellTasks& tasks, const Plan& plan,
                                 std::function<void(int signum)> kill, std::function<void()> over)
    : host_(host), tasks_(tasks), plan_(plan), kill_(std::move(kill)), over_(std::move(over)) {}

void RestartTogether::leave() {
  others_ended_ = {};
  if (plan_.is_node || is_due() || waits_ || host_.job().shell_rank > plan_.last) return;
  static_cast<void>(
      host_.gather_up_to(plan_.last, barrier_name(plan_), "", [](const Result<plugin::Gathered>& /*others*/) {}));
}

void RestartTogether::end_tasks(event::Seconds grace) {
  if (host_.ending()) return;
  kill_(SIGTERM);
  auto timer = event::Timer::create(host_.loop(), [this] { kill_(SIGKILL); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  timer_ = *std::move(timer);
  if (tasks_.running() > 0) timer_->start_grace(grace);
  wait_for_others();
}

void RestartTogether::task_ended() {
  if (timer_) wait_for_others();
}

void RestartTogether::wait_for_others() {
  if (tasks_.running() > 0 || std::exchange(waits_, true)) return;
  timer_->stop();
  if (plan_.is_node || host_.job().shell_rank > plan_.last) return wait_for_delay();
  others_ended_ =
      host_.gather_up_to(plan_.last, barrier_name(plan_), "", [this](const Result<plugin::Gathered>& gathered) {
        // Else this shell is cut off, or the job ends.
        if (gathered) wait_for_delay();
      });
}

void RestartTogether::wait_for_delay() {
  auto timer = event::Timer::create(host_.loop(), [this] { over_(); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  timer_ = *std::move(timer);
  timer_->start(event::Seconds(plan_.delay));
}

bool RestartTogether::begin_asking() {
  if (state_ != State::moving) return false;
  state_ = State::asked;
  return true;
}

}  // namespace nacre::core
