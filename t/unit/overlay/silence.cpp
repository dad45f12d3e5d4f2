// SPDX-License-Identifier: Apache-2.0
//
// Rules 9 and 10 of doc/protocol.md: who is silent for too long, and what a standstill changes about that.
#include "overlay/node.hpp"

#include <catch2/catch.hpp>

#include "bench.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

TEST_CASE("rule 9: a child that does not say HELLO in time is suspected; one that falls silent too") {
  Bench bench(0, 3);
  bench.below(1);
  bench.asks();
  auto passes = [&](milliseconds time) {
    for (milliseconds each{0}; each < time; each += milliseconds(1000)) {
      bench.say({1, Side::down}, Beat{1, 0});
      bench.wait(milliseconds(1000));
    }
  };
  passes(bench.node.options().first_hello_bound - milliseconds(1000));
  CHECK(bench.node.tree().has(2));
  passes(milliseconds(1000));
  CHECK_FALSE(bench.node.tree().has(2));
  CHECK(bench.node.tree().has(1));
  for (int each = 0; each < 5; ++each) bench.wait(milliseconds(1000));
  CHECK_FALSE(bench.node.tree().has(1));
}

TEST_CASE(
    "rule 9: a leader that has nobody to tell a beat for longer than the others live without one has lost them "
    "all") {
  Bench bench(0, 117);
  bench.below(1);
  bench.wait(bench.node.options().first_hello_bound);
  bench.node.unlinked({1, Side::down});
  auto pass = [&](milliseconds time) {
    for (milliseconds each{0}; each < time; each += milliseconds(1000)) bench.wait(milliseconds(1000));
  };
  pass(bench.node.options().fence);
  CHECK(bench.node.tree().size() > 100);  // of the others each waits for its hello bound
  pass(milliseconds(2000));
  CHECK(bench.node.tree().size() == 1);
}

TEST_CASE("rule 9: a leader that somebody comes back to in that time has not") {
  Bench bench(0, 117);
  bench.below(1);
  bench.wait(bench.node.options().first_hello_bound);
  bench.node.unlinked({1, Side::down});
  for (int each = 0; each < 60; ++each) {
    if (each == 20) bench.below(50);
    if (each > 20) bench.say({50, Side::down}, Beat{1, 0});
    bench.wait(milliseconds(1000));
  }
  CHECK(bench.node.tree().size() > 90);
  CHECK(bench.node.tree().has(50));
}

TEST_CASE("rules 9 and 10: the bounds of silence grow together") {
  Bench above(0, 2);
  above.below(1);
  above.node.wait_for_silent(seconds(20));
  above.say({1, Side::down}, Beat{1, 0});
  for (int each = 0; each < 19; ++each) above.wait(milliseconds(1000));
  CHECK(above.node.tree().has(1));
  above.wait(milliseconds(1000));
  CHECK_FALSE(above.node.tree().has(1));

  Bench below(3);
  below.above(1);
  below.node.wait_for_silent(seconds(20));
  for (int each = 0; each < 119; ++each) below.wait(milliseconds(1000));
  CHECK(below.node.stage() == Stage::member);
  below.wait(milliseconds(1000));
  CHECK(below.node.stage() == Stage::over);
}

TEST_CASE("rule 9: a silent bound that is lowered or raised holds for a silence that has begun") {
  Bench bench(0, 3);
  for (Id id : {1, 2}) bench.below(id);
  for (Id id : {1, 2}) bench.say({id, Side::down}, Beat{1, 0});
  bench.wait(milliseconds(1000));
  bench.say({2, Side::down}, Beat{2, 0});
  bench.node.wait_for_silent(seconds(2));
  bench.wait(milliseconds(900));
  CHECK(bench.node.tree().has(1));
  bench.wait(milliseconds(200));
  CHECK_FALSE(bench.node.tree().has(1));
  bench.node.wait_for_silent(seconds(3));
  bench.wait(milliseconds(1700));
  CHECK(bench.node.tree().has(2));
  bench.wait(milliseconds(300));
  CHECK_FALSE(bench.node.tree().has(2));
}

TEST_CASE("a node that was stopped itself blames nobody for it") {
  Bench bench(0, 2);
  bench.below(1);
  bench.stand_still(seconds(25));
  bench.say({1, Side::down}, Beat{1, 0});
  bench.wait(seconds(1));
  CHECK(bench.node.tree().has(1));
}

TEST_CASE("rule 10: without beats the leader is dialled, and the parent left when that answers") {
  Bench bench(3);
  bench.above(1);
  bench.asks();
  bench.wait(milliseconds(4400));
  CHECK(bench.asks().empty());
  bench.wait(milliseconds(200));
  CHECK(bench.asks() == "dial 0");
  bench.node.linked({0, Side::up});
  bench.asks();
  bench.say({0, Side::up}, Welcome{0, 0, {}});
  CHECK(bench.asks() == "^1 BYE 0; hang up ^1");
  bench.say({0, Side::up}, Beat{1, 0});
  CHECK(bench.asks() == "dial 1");
}

TEST_CASE("rule 10: a shell that is cut off ends itself") {
  Bench bench(3);
  bench.above(1);
  bench.wait(bench.node.options().fence - milliseconds(1));
  CHECK(bench.asks().find("die") == std::string::npos);
  bench.wait(milliseconds(1));
  CHECK(bench.asks() == "die");
  CHECK(bench.node.stage() == Stage::over);
}

TEST_CASE("rule 10: a shell that stood still itself has a hello bound to hear a beat") {
  constexpr Time kLong = seconds(3600);
  auto hello = OverlayOptions().hello_bound;
  Bench bench(3);
  bench.above(1);
  bench.stand_still(seconds(3600));
  bench.asks();
  bench.wait(milliseconds(4400));
  CHECK(bench.asks().empty());  // nor is anybody dialled before the time
  auto number = static_cast<std::uint64_t>((kLong + seconds(1100)).count() / 1000);
  bench.say({1, Side::up}, Beat{number, 0});
  bench.wait(hello);
  CHECK(bench.node.stage() == Stage::member);

  bench.stand_still(seconds(3600));
  bench.wait(hello / 2);
  bench.stand_still(seconds(60));  // no more time for another one
  CHECK(bench.asks().ends_with("die"));

  Bench fenced(3);
  fenced.above(1);
  fenced.stand_still(seconds(3600));
  fenced.wait(hello - milliseconds(1));
  CHECK(fenced.node.stage() == Stage::member);
  fenced.wait(milliseconds(1));
  CHECK(fenced.node.stage() == Stage::over);
}

TEST_CASE("a shell that leaves, and stood still, has the time again that it was promised") {
  Middle bench;
  bench.entry(0, 1, left("1"));
  bench.stand_still(bench.node.options().leave_bound);
  CHECK(bench.node.stage() == Stage::leaving);
  bench.wait(bench.node.options().leave_bound);
  CHECK(bench.node.stage() == Stage::over);
}

TEST_CASE("a shrink, and a leader without anybody, wait on after a standstill") {
  Bench bench(0, 3);
  bench.below(1);
  bench.below(2);
  bench.node.request(Shrink{*Idset::parse("2")}).value();
  bench.say({1, Side::down}, Up{1, 1, {}, {}, {}, {}, {}});
  bench.stand_still(bench.node.options().campaign_bound);
  CHECK(bench.node.campaigns().size() == 1);
  bench.node.unlinked({1, Side::down});
  bench.node.unlinked({2, Side::down});
  bench.stand_still(seconds(60));
  CHECK(bench.node.tree().has(1));
}
