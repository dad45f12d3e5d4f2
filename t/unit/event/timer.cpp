// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <limits>
#include <optional>
#include <string>

#include "catch.hpp"

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

TEST_CASE("a standstill is no part of a grace") {
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
