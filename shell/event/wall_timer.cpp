// SPDX-License-Identifier: Apache-2.0
#include "event/wall_timer.hpp"

#include <algorithm>
#include <optional>

namespace nacre::event {

struct WallTimer::State {
  double at;
  std::function<void()> callback;
  Clock clock;
  std::optional<Timer> timer;

  void wait() { timer->start(Seconds(std::clamp(at - clock(), 0.0, kLongest))); }

  void due() {
    if (at - clock() > kTolerance) return wait();
    auto call = std::move(callback);  // the callback may destroy this timer
    call();
  }
};

Result<WallTimer> WallTimer::start(Loop& loop, double at, std::function<void()> callback, Clock clock) {
  auto state = std::make_unique<State>(State{at, std::move(callback), std::move(clock), std::nullopt});
  state->timer = TRY(Timer::create(loop, [raw = state.get()] { raw->due(); }));
  state->wait();
  return WallTimer(std::move(state));
}

WallTimer::WallTimer(std::unique_ptr<State> state) : state_(std::move(state)) {}
WallTimer::WallTimer(WallTimer&&) noexcept = default;
WallTimer& WallTimer::operator=(WallTimer&&) noexcept = default;
WallTimer::~WallTimer() = default;

}  // namespace nacre::event
