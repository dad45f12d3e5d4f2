// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "base/json.hpp"
#include "timeline/facts.hpp"
#include "timeline/summary.hpp"

using namespace nacre;            // NOLINT
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

// The bytes of a timeline's summary, and of the head of a shell's answer.

TEST_CASE("the texts of a summary") {
  CHECK(dump_json(Summary().json()) ==
        R"({"dropped":0,"end":[],"launch":0.0,"launched":false,"run":[],"steps":[]})");
  CHECK(Summary::parse(Summary().json()).value() == Summary());
  Summary full;
  full.launch = 1'500'000'000;
  full.launch_steps = {{"init barrier", 1'000'000, Last{2, "n2", {}, "its prolog took", 500'000, false}},
                       {"tasks", 2'000'000, Last{3, "n3", 7, "", 0, false}},
                       {"R", 0, Last{4, "n4", {}, "", 250'000, true}}};
  full.has_launched = true;
  full.run_steps = {{"first end", -1'000, {}}};
  full.end_steps = {{"exit", 3'000'000, {}}};
  full.clocks = {2'000, "n5"};
  full.lost = {{"n6", "n7"}, 3};
  full.late = {{"n8"}, 0};
  full.dropped = 9;
  CHECK(dump_json(full.json()) ==
        R"({"clocks":{"uncertainty":2e-06,"worst":"n5"},"dropped":9,"end":[{"name":"exit","time":0.003}],"l)"
        R"(ate":{"others":0,"places":["n8"]},"launch":1.5,"launched":true,"lost":{"others":3,"places":["n6")"
        R"(,"n7"]},"run":[{"name":"first end","time":-1e-06}],"steps":[{"last":{"place":"n2","shell":2,"too)"
        R"(k":0.0005,"why":"its prolog took"},"name":"init barrier","time":0.001},{"last":{"place":"n3","ra)"
        R"(nk":7,"shell":3},"name":"tasks","time":0.002},{"last":{"place":"n4","shell":4,"slowest":true,"to)"
        R"(ok":0.00025},"name":"R","time":0.0}]})");
  CHECK(Summary::parse(full.json()).value() == full);
  full.clocks.most = Clock::kUnknown;
  CHECK(full.json().at("clocks").dump() == R"({"uncertainty":null,"worst":"n5"})");
  CHECK(Summary::parse(full.json()).value() == full);
  Json wrong = full.json();
  wrong["steps"][1]["time"] = 1e10;
  CHECK(Summary::parse(wrong).error().message == "steps[1].time: expected a time in seconds, got 10000000000.0");
}

TEST_CASE("the head of a batch") {
  auto head = [](const TimelineBatch& batch) {
    std::string text = batch.text();
    return text.substr(0, text.find('\n'));
  };
  TimelineBatch batch;
  CHECK(head(batch) == R"({"dropped":0,"last":false,"number":0,"received":0,"sent":0})");
  batch.number = 3;
  batch.received = 5;
  batch.sent = 6;
  batch.is_last = true;
  batch.clock = "boot";
  batch.dropped = 2;
  batch.names = {"a", "b"};
  CHECK(head(batch) ==
        R"({"clock":"boot","dropped":2,"last":true,"names":["a","b"],"number":3,"received":5,"sent":6})");
  CHECK(TimelineBatch::parse(batch.text()).value() == batch);
}
