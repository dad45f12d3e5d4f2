// SPDX-License-Identifier: Apache-2.0
#include "event/timers.hpp"

#include "catch.hpp"

#include "event/clock.hpp"

using namespace nacre;
using event::WallTimer;

namespace {

// A wall clock that can be set.
struct Clock {
  double ahead = 0;
  [[nodiscard]] double now() const { return event::wall_clock() + ahead; }
};

WallTimer start(event::Loop& loop, const Clock& clock, double seconds, std::function<void()> callback) {
  auto timer = WallTimer::start(loop, clock.now() + seconds, std::move(callback), [&clock] { return clock.now(); });
  REQUIRE(timer);
  return *std::move(timer);
}

}  // namespace

TEST_CASE("a wall timer calls once, when it is time, or at once when that is over") {
  auto loop = *event::Loop::create();
  Clock clock;
  for (double seconds : {-1000.0, 0.0, 0.05}) {
    int calls = 0;
    double due = clock.now() + seconds;
    WallTimer timer = start(*loop, clock, seconds, [&] { ++calls; });
    CHECK(calls == 0);
    loop->run();
    CHECK(calls == 1);
    CHECK(clock.now() >= due - WallTimer::kTolerance);
  }
}

TEST_CASE("where the clock is set back meanwhile the rest is waited for, too") {
  auto loop = *event::Loop::create();
  Clock clock;
  int calls = 0;
  double due = clock.now() + 0.05;
  WallTimer timer = start(*loop, clock, 0.05, [&] {
    ++calls;
    CHECK(clock.now() >= due - WallTimer::kTolerance);
  });
  clock.ahead = -1.2;
  double begun = event::clock_now().count();
  loop->run();
  CHECK(calls == 1);
  CHECK(event::clock_now().count() - begun >= 1.2);
}

TEST_CASE("a clock that is set back by less than the tolerance, or forward, changes nothing") {
  auto loop = *event::Loop::create();
  for (double ahead : {-0.5, 1e6}) {
    Clock clock;
    int calls = 0;
    WallTimer timer = start(*loop, clock, 0.05, [&] { ++calls; });
    clock.ahead = ahead;
    double begun = event::clock_now().count();
    loop->run();
    CHECK(calls == 1);
    CHECK(event::clock_now().count() - begun >= 0.045);
  }
}

TEST_CASE("a wall timer may be destroyed by its callback, or before its time") {
  auto loop = *event::Loop::create();
  Clock clock;
  std::optional<WallTimer> timer;
  int calls = 0;
  timer = start(*loop, clock, 0.01, [&] {
    timer.reset();
    ++calls;
  });
  loop->run();
  CHECK(calls == 1);
  timer = start(*loop, clock, 0.01, [&] { ++calls; });
  timer.reset();
  loop->run();
  CHECK(calls == 1);
  timer = start(*loop, clock, 1e15, [] {});  // for ever: no overflow
  loop->poll();
  CHECK(calls == 1);
}
