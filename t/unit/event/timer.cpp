// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "catch.hpp"

#include "base/guarded.hpp"
#include "event/clock.hpp"
#include "event/timers.hpp"
#include "event/loop.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::event;  // NOLINT

TEST_CASE("timers fire in the order of their delays, once") {
  auto loop = Loop::create().value();
  std::string fired;
  auto late = Timer::create(*loop, [&] { fired += "c"; }).value();
  auto early = Timer::create(*loop, [&] { fired += "a"; }).value();
  auto middle = Timer::create(*loop, [&] { fired += "b"; }).value();
  late.start(Seconds(0.03));
  early.start(Seconds(0));
  middle.start(Seconds(0.01));
  double before = loop->now();
  loop->run();
  CHECK(fired == "abc");
  CHECK(loop->now() - before >= 0.03 - 1e-9);
}

TEST_CASE("a repeating timer fires until it is stopped") {
  auto loop = Loop::create().value();
  int fired = 0;
  std::optional<Timer> timer;
  timer = Timer::create(*loop, [&] {
            if (++fired == 3) timer->stop();
          }).value();
  timer->start(Seconds(0.001), Seconds(0.001));
  loop->run();
  CHECK(fired == 3);
}

TEST_CASE("starting a timer again puts it off") {
  auto loop = Loop::create().value();
  std::string fired;
  auto a = Timer::create(*loop, [&] { fired += "a"; }).value();
  auto b = Timer::create(*loop, [&] { fired += "b"; }).value();
  a.start(Seconds(0.001));
  b.start(Seconds(0.005));
  a.start(Seconds(0.020));
  loop->run();
  CHECK(fired == "ba");
}

TEST_CASE("a delay beyond all clocks never fires, one that is none fires at once") {
  auto loop = Loop::create().value();
  std::string fired;
  auto never = Timer::create(*loop, [&] { fired += "never"; }).value();
  auto nan = Timer::create(*loop, [&] { fired += "a"; }).value();
  auto past = Timer::create(*loop, [&] { fired += "b"; }).value();
  for (double huge : {1e13, 1e300, std::numeric_limits<double>::infinity()}) {
    fired.clear();
    never.start(Seconds(huge));
    nan.start(Seconds(std::numeric_limits<double>::quiet_NaN()));
    past.start(Seconds(-5));
    loop->run_until([&] { return fired.size() >= 2; });
    CHECK(fired == "ab");
  }
}

TEST_CASE("a grace is as long as its delay, then repeats as asked") {
  auto loop = Loop::create().value();
  int fired = 0;
  double begun = loop->now();
  Timer timer = Timer::create(*loop, [&] {
                  if (++fired == 2) loop->stop();
                }).value();
  timer.start_grace(Seconds(1.2), Seconds(0.05));
  loop->run();
  CHECK(loop->now() - begun >= 1.25);
  timer.stop();
  loop->run();
  CHECK(fired == 2);
}

TEST_CASE("a standstill is no component of a grace") {
  auto loop = Loop::create().value();
  double woke = 0;
  double usual = 0;
  double patient = 0;
  Timer still = Timer::create(*loop, [&] {
                  ::usleep(1'500'000);
                  loop->update_now();
                  woke = loop->now();
                }).value();
  Timer plain = Timer::create(*loop, [&] { usual = loop->now(); }).value();
  Timer grace = Timer::create(*loop, [&] { patient = loop->now(); }).value();
  still.start(Seconds(0.05));
  plain.start(Seconds(0.3));
  grace.start_grace(Seconds(0.3));
  loop->run();
  CHECK(usual - woke < 0.25);
  CHECK(patient - woke >= 0.29);
}

TEST_CASE("a timer that is unreferenced does not keep the loop running") {
  auto loop = Loop::create().value();
  bool fired = false;
  auto timer = Timer::create(*loop, [&] { fired = true; }).value();
  timer.start(Seconds(3600));
  timer.unref();
  loop->run();
  CHECK_FALSE(fired);
}

TEST_CASE("what a callback throws is reported as of the component that made the timer, and the loop goes on") {
  auto loop = Loop::create().value();
  std::string reported;
  when_thrown([&](const Component* component, std::string_view what) {
    reported += (component == nullptr ? "-" : component->name) + ": " + std::string(what) + "; ";
  });
  const Component usage{"usage", false};
  std::optional<Timer> made, inner;
  {
    const InComponent in_component(&usage);
    made = Timer::create(*loop, [&] {
             inner = Timer::create(*loop, [] { throw std::runtime_error("inner"); }).value();
             inner->start(Seconds(0));
             throw std::runtime_error("made");
           }).value();
  }
  bool others = false;
  auto other = Timer::create(*loop, [&] { others = true; }).value();
  made->start(Seconds(0));
  other.start(Seconds(0.02));
  loop->run();
  when_thrown(nullptr);
  CHECK(reported == "usage: internal error: made; usage: internal error: inner; ");
  CHECK(others);
}

TEST_CASE("a timer that starts itself again at once lets other events through") {
  auto loop = Loop::create().value();
  int steps = 0;
  int fds[2];
  REQUIRE(::pipe(fds) == 0);
  std::optional<Timer> step;
  step = Timer::create(*loop, [&] {
           if (++steps < 1000) step->start(Seconds::zero());
         }).value();
  int steps_before = -1;
  auto poll = Poll::create(*loop, fds[0], [&](int) {
                if (steps_before < 0) steps_before = steps;
                step->stop();
                loop->stop();
              }).value();
  REQUIRE(poll.start(Poll::kReadable));
  step->start(Seconds::zero());
  REQUIRE(::write(fds[1], "x", 1) == 1);
  loop->run();
  CHECK(steps_before >= 0);
  CHECK(steps_before <= 2);
  ::close(fds[1]);
  ::close(fds[0]);
}

TEST_CASE("a fine timer fires once for each start, in less than a millisecond") {
  auto loop = Loop::create().value();
  int fired = 0;
  auto timer = FineTimer::create(*loop, [&] { ++fired; }).value();
  loop->run();  // it has not been started
  CHECK(fired == 0);
  for (int round = 1; round <= 3; ++round) {
    timer.start(Seconds(100e-6));
    loop->run();
    CHECK(fired == round);
  }
  double shortest = 1;
  for (int round = 0; round < 50; ++round) {
    double before = clock_now().count();
    timer.start(Seconds(100e-6));
    loop->run();
    shortest = std::min(shortest, clock_now().count() - before);
  }
  CHECK(shortest >= 100e-6);
  CHECK(shortest < 1e-3);
}

TEST_CASE("a fine timer that is started again, also by what it calls, goes on from then") {
  auto loop = Loop::create().value();
  int fired = 0;
  std::optional<FineTimer> timer;
  timer = FineTimer::create(*loop, [&] {
            if (++fired < 3) timer->start(Seconds(50e-6));
          }).value();
  timer->start(Seconds(0.9));
  timer->start(Seconds(50e-6));
  double before = clock_now().count();
  loop->run();
  CHECK(fired == 3);
  CHECK(clock_now().count() - before < 0.9);
}
