// SPDX-License-Identifier: Apache-2.0
//
// When folded lines that wait are let out, for the plugin `output`.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>

#include "event/clock.hpp"
#include "event/loop.hpp"

namespace nacre::plugins {

class FoldTimer {
 public:
  // Lets out the lines that have waited until `time`; returns the earliest time for the next call.
  using Expire = std::function<std::optional<double>(double time)>;

  Result<void> start(event::Loop& loop, Expire expire) {
    expire_ = std::move(expire);
    timer_ = TRY(event::Timer::create(loop, [this] { look(); }));
    return {};
  }

  // There may be waiting lines now.
  void look_if_idle() {
    if (timer_ && !waits_) look();
  }

 private:
  void look() {
    double now = event::wall_clock();
    std::optional<double> next = expire_(now);
    waits_ = next.has_value();
    if (next) timer_->start(event::Seconds(std::max(*next - now, 0.0)));
  }

  Expire expire_;
  std::optional<event::Timer> timer_;  // none: no lines are folded
  bool waits_ = false;                 // it was started
};

}  // namespace nacre::plugins
