// SPDX-License-Identifier: Apache-2.0
#include "timeline/facts.hpp"

#include "catch.hpp"

using namespace nacre::timeline;  // NOLINT

namespace {

constexpr Time kMilli = 1'000'000;
constexpr Time kSecond = 1000 * kMilli;
constexpr Time kAhead = 3600 * kSecond;  // of the leader's clock, in most tests

// Asked at the leader's `time`; the question takes `there`, the answer `back`.
void exchange(Clock& clock, Time time, Time there, Time back, Time ahead = kAhead) {
  Time received = time + there + ahead;
  clock.add_exchange(time, received, received + kMilli, time + there + kMilli + back);
}

}  // namespace

TEST_CASE("of a clock of which nothing is known nothing is claimed") {
  Clock clock;
  CHECK(clock.uncertainty(5) == Clock::kUnknown);
  CHECK(clock.to_leader(5) == 5);
}

TEST_CASE("an exchange bounds the offset by its delays, whichever way was slow") {
  auto [there, back] =
      GENERATE(table<Time, Time>({{kMilli, kMilli}, {0, 8 * kMilli}, {8 * kMilli, 0}, {3 * kMilli, kMilli}}));
  Clock clock;
  exchange(clock, 10 * kSecond, there, back);
  Time shell = 10 * kSecond + kAhead;
  Time wrong = clock.to_leader(shell) - 10 * kSecond;
  CHECK(std::abs(wrong) <= clock.uncertainty(shell));
  CHECK(clock.measured(shell).uncertainty >= (there + back) / 2);
  CHECK(clock.measured(shell).uncertainty < (there + back) / 2 + kMilli);
}

TEST_CASE("the narrowest of several exchanges counts") {
  Clock clock;
  exchange(clock, 10 * kSecond, 40 * kMilli, 0);
  exchange(clock, 10 * kSecond + 100 * kMilli, kMilli / 10, kMilli / 10);
  exchange(clock, 10 * kSecond + 200 * kMilli, 0, 30 * kMilli);
  Time shell = 10 * kSecond + kAhead;
  CHECK(clock.uncertainty(shell) < kMilli);
  CHECK(std::abs(clock.to_leader(shell) - 10 * kSecond) < kMilli);
}

TEST_CASE("a clock that drifts is followed between exchanges, and is less certain far from them") {
  Clock clock;
  exchange(clock, 0, kMilli / 10, kMilli / 10, kAhead);
  exchange(clock, 100 * kSecond, kMilli / 10, kMilli / 10, kAhead + 20 * kMilli);
  Time between = 50 * kSecond + kAhead + 10 * kMilli;
  CHECK(std::abs(clock.to_leader(between) - 50 * kSecond) < kMilli);
  Time late = 300 * kSecond + kAhead;
  CHECK(clock.uncertainty(late) >= 100 * kMilli - kMilli);  // 500 ppm of 200 s
  CHECK(clock.uncertainty(late) > clock.uncertainty(between));
}

TEST_CASE("a barrier bounds a clock, too") {
  Clock clock;
  // The shell comes 4 ms before the leader and passes it 1 ms after it.
  clock.add_barrier(10 * kSecond, 10 * kSecond + 20 * kMilli, 10 * kSecond - 4 * kMilli + kAhead,
                    10 * kSecond + 21 * kMilli + kAhead);
  Time shell = 10 * kSecond + kAhead;
  CHECK(clock.uncertainty(shell) != Clock::kUnknown);
  CHECK(std::abs(clock.to_leader(shell) - 10 * kSecond) <= clock.uncertainty(shell));
}

TEST_CASE("what contradicts itself is ignored") {
  Clock clock;
  clock.add_exchange(10, 5, 4, 20);     // answered before it was received
  clock.add_exchange(20, 5, 6, 10);     // taken before it was sent
  clock.add_exchange(0, 100, 500, 10);  // longer at the other shell than between question and answer
  clock.add_barrier(10, 5, 1, 2);
  CHECK(clock.uncertainty(5) == Clock::kUnknown);
}

TEST_CASE("the same clock is certain, and what was measured of it can still be seen") {
  Clock clock;
  exchange(clock, kSecond, kMilli, kMilli, 0);
  clock.set_same();
  CHECK(clock.uncertainty(5 * kSecond) == 0);
  CHECK(clock.to_leader(7) == 7);
  CHECK(clock.measured(kSecond).uncertainty >= kMilli);
}

TEST_CASE("a long job's exchanges take bounded memory, and the newest are known") {
  Clock clock;
  for (Time i = 0; i < 5000; ++i) exchange(clock, i * 60 * kSecond, kMilli, kMilli);
  Time last = 4999 * 60 * kSecond + kAhead;
  CHECK(clock.uncertainty(last) < 100 * kMilli);
  CHECK(clock.uncertainty(kAhead) < 100 * kMilli);
}
