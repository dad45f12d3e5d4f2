// SPDX-License-Identifier: Apache-2.0
//
// A timer for waits of less than the millisecond to which event::Timer is exact. It costs a descriptor.
#pragma once

#include <functional>
#include <memory>

#include "event/loop.hpp"

namespace nacre::event {

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

}  // namespace nacre::event
