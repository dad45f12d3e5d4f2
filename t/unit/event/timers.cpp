// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "catch.hpp"

#include "base/unique_fd.hpp"
#include "event/clock.hpp"
#include "event/timers.hpp"

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

TEST_CASE("clock_now goes on while the loop does not turn") {
  auto loop = event::Loop::create();
  REQUIRE(loop);
  double standing = (*loop)->now();
  event::Seconds start = event::clock_now();
  while (event::clock_now() - start < event::Seconds(0.002)) {
  }
  CHECK((*loop)->now() == standing);
  CHECK(event::clock_now() > start);
}

TEST_CASE("a descriptor is waited for until it is ready, or the time is over") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  auto past = event::clock_now() - event::Seconds(1);
  auto future = event::clock_now() + event::Seconds(60);
  CHECK_FALSE(event::ready_by(pipe.read.get(), POLLIN, past).value());
  CHECK_FALSE(event::ready_by(pipe.read.get(), POLLIN, event::clock_now() + event::Seconds(0.01)).value());
  CHECK(event::ready_by(pipe.write.get(), POLLOUT, past).value());
  REQUIRE(::write(pipe.write.get(), "x", 1) == 1);
  CHECK(event::ready_by(pipe.read.get(), POLLIN, future).value());
  Pipe other = make_pipe(O_CLOEXEC).value();
  other.write.reset();
  CHECK(event::ready_by(other.read.get(), POLLIN, future).value());
}
