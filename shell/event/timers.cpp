// SPDX-License-Identifier: Apache-2.0
#include "event/timers.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace nacre::event {

struct FineTimer::State {
  UniqueFd fd;
  std::function<void()> callback;
  std::optional<Poll> poll = std::nullopt;

  void due() {
    std::uint64_t times = 0;
    if (::read(fd.get(), &times, sizeof times) != sizeof times) return;  // it was restarted
    poll->keeps_running(false);
    callback();
  }
};

Result<FineTimer> FineTimer::create(Loop& loop, std::function<void()> callback) {
  UniqueFd fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!fd) return system_error(errno, "cannot make a timer");
  auto state = std::make_unique<State>(State{std::move(fd), std::move(callback)});
  state->poll = TRY(Poll::create(loop, state->fd.get(), [raw = state.get()](int) { raw->due(); }));
  CHECK_OK(state->poll->start(Poll::kReadable));
  state->poll->keeps_running(false);
  return FineTimer(std::move(state));
}

FineTimer::FineTimer(std::unique_ptr<State> state) : state_(std::move(state)) {}
FineTimer::FineTimer(FineTimer&&) noexcept = default;
FineTimer& FineTimer::operator=(FineTimer&&) noexcept = default;
FineTimer::~FineTimer() = default;

void FineTimer::start(Seconds delay) {
  constexpr double kNanoseconds = 1e9;  // in a second
  constexpr long kMost = 999'999'999;
  itimerspec when{};
  when.it_value.tv_nsec = std::clamp(std::lround(delay.count() * kNanoseconds), 1L, kMost);
  ::timerfd_settime(state_->fd.get(), 0, &when, nullptr);  // cannot fail for a time within its range
  state_->poll->keeps_running(true);
}

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
