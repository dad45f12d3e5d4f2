// SPDX-License-Identifier: Apache-2.0
//
// Timers that the loop does not have: finer than a millisecond, and for a moment of the wall clock.
#pragma once

#include "event/clock.hpp"
#include "event/loop.hpp"

namespace nacre::event {

// A timer for waits of less than the millisecond to which event::Timer is exact. It costs a descriptor.
class FineTimer {
 public:
  // `callback` must not destroy the timer.
  static Result<FineTimer> create(Loop& loop, std::function<void()> callback);
  FineTimer(FineTimer&&) noexcept;
  FineTimer& operator=(FineTimer&&) noexcept;
  ~FineTimer();

  // Calls back once, after `delay`, less than a second; until then it keeps run() going. Restarts a running timer.
  void start(Seconds delay);

 private:
  struct State;
  explicit FineTimer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A timer for a moment of the wall clock. It waits by a clock that cannot be set. If the wall clock was set back
// meanwhile, it waits for the rest; if it was set forward, it is late. So it is never early by more than
// kTolerance.
class WallTimer {
 public:
  using Clock = std::function<double()>;          // seconds since the Epoch
  static constexpr double kTolerance = 1;         // seconds
  static constexpr double kLongest = 7 * 86400.;  // seconds after which it reads the wall clock again

  // Calls `callback` once, from the loop, at the time `at`; soon if that has passed.
  static Result<WallTimer> start(Loop& loop, double at, std::function<void()> callback, Clock clock = wall_clock);
  WallTimer(WallTimer&&) noexcept;
  WallTimer& operator=(WallTimer&&) noexcept;
  ~WallTimer();

 private:
  struct State;
  explicit WallTimer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nacre::event
