// SPDX-License-Identifier: Apache-2.0
//
// When the overlay's node wants its next tick.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/result.hpp"
#include "event/clock.hpp"
#include "event/loop.hpp"
#include "overlay/effect.hpp"

namespace nacre::group {

inline overlay::Time present() { return std::chrono::duration_cast<overlay::Time>(event::clock_now()); }

class NodeTimer {
 public:
  explicit NodeTimer(std::function<void()> on_due) : on_due_(std::move(on_due)) {}
  NodeTimer(const NodeTimer&) = delete;
  NodeTimer& operator=(const NodeTimer&) = delete;

  Result<void> create(event::Loop& loop) {
    timer_ = TRY(event::Timer::create(loop, [this] { fired(); }));
    return {};
  }
  void perform(const overlay::Arm& arm) {
    due_ = arm.at;
    start();
  }

 private:
  void start() { timer_->start(std::max(event::Seconds::zero(), event::Seconds(due_ - present()))); }
  // The loop's clock is that of the round's beginning, so the timer may fire a little early; the node would not ask
  // again.
  void fired() {
    if (present() < due_) return start();
    on_due_();
  }

  std::function<void()> on_due_;
  std::optional<event::Timer> timer_;
  overlay::Time due_{};
};

}  // namespace nacre::group
