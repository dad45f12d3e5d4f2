// SPDX-License-Identifier: Apache-2.0
//
// Rules 9 and 10 of doc/protocol.md: who is silent for too long, and what a standstill changes about that.
#include "catch.hpp"

#include "bench.hpp"
#include "overlay/node.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

TEST_CASE("rule 9: a child that does not say HELLO in time is suspected; one that falls silent too") {
  Bench bench(0, 3);
  bench.below(1);
  bench.asks();
  auto passes = [&](milliseconds time) {
    for (milliseconds each{0}; each < time; each += milliseconds(1000)) {
      bench.say({1, Side::down}, Beat{1, 0, {}});
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

// Of 117 members only 1 has come, and is then lost. When the others have not come within a hello bound, some are
// left because they have moved.
struct Alone : Bench {
  Alone() : Bench(0, 117) {
    below(1);
    for (milliseconds each{0}; each < node.options().first_hello_bound; each += milliseconds(1000)) {
      say({1, Side::down}, Beat{1, 0, {}});
      wait(milliseconds(1000));
    }
    node.unlinked({1, Side::down});
    passes(milliseconds(20'000));
    CHECK(node.tree().size() > 20);
  }
  void passes(milliseconds time) {
    for (milliseconds each{0}; each < time; each += milliseconds(1000)) wait(milliseconds(1000));
  }
};

TEST_CASE(
    "rule 9: a leader that has nobody to tell a beat for longer than the others live without one has lost them "
    "all") {
  Alone alone;
  alone.passes(alone.node.options().fence - milliseconds(20'000));
  CHECK(alone.node.tree().size() > 20);
  alone.passes(milliseconds(2000));
  CHECK(alone.node.tree().size() == 1);
}

TEST_CASE("rule 9: a leader that somebody comes back to in that time has not") {
  Alone alone;
  Id back = alone.node.tree().at(15);
  alone.below(back);
  for (int each = 0; each < 40; ++each) {
    alone.say({back, Side::down}, Beat{1, 0, {}});
    alone.wait(milliseconds(1000));
  }
  CHECK(alone.node.tree().size() > 10);
  CHECK(alone.node.tree().has(back));
}

TEST_CASE("rules 9 and 10: the bounds of silence grow together") {
  Bench above(0, 2);
  above.below(1);
  above.node.wait_for_silent(seconds(20));
  above.say({1, Side::down}, Beat{1, 0, {}});
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

TEST_CASE("a child that is suspected as it is silent: for how long, and how late this node was itself") {
  LastHeard heard;
  CHECK(heard.text(seconds(3)) == "nothing has come from it");
  heard.note(seconds(1));
  CHECK(heard.text(seconds(3)) == "nothing has come from it for 2 s");
  heard.note(seconds(2));
  heard.note(seconds(3));
  heard.note(seconds(3) + milliseconds(20));  // counts as one with the note before
  heard.note(seconds(3) + milliseconds(40));
  CHECK(heard.text(seconds(9)) == "nothing has come from it for 5.96 s (before that 1 and 1 s apart)");
  for (int i = 4; i < 10; ++i) heard.note(seconds(i));
  CHECK(heard.text(seconds(10)) == "nothing has come from it for 1 s (before that 1, 1 and 1 s apart)");
  Lateness late;
  CHECK(late.most_since(Time(0)) == Time(0));
  late.note(seconds(1), milliseconds(900));
  late.note(seconds(5), milliseconds(200));
  late.note(seconds(6), milliseconds(1));
  CHECK(late.most_since(seconds(2)) == milliseconds(200));
  CHECK(late.most_since(seconds(1)) == milliseconds(900));
  CHECK(late.most_since(seconds(7)) == Time(0));
}

TEST_CASE("rule 9: a silent bound that is lowered or raised holds for a silence that has begun") {
  Bench bench(0, 3);
  for (Id id : {1, 2}) bench.below(id);
  for (Id id : {1, 2}) bench.say({id, Side::down}, Beat{1, 0, {}});
  bench.wait(milliseconds(1000));
  bench.say({2, Side::down}, Beat{2, 0, {}});
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
  bench.say({1, Side::down}, Beat{1, 0, {}});
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
  bench.say({0, Side::up}, Welcome{0, 0, {}, 3});
  CHECK(bench.asks() == "^1 BYE 0; hang up ^1");
  bench.say({0, Side::up}, Beat{1, 0, {}});
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
  CHECK(bench.asks().empty());  // nobody is dialled before the time either
  auto number = static_cast<std::uint64_t>((kLong + seconds(1100)).count() / 1000);
  bench.say({1, Side::up}, Beat{number, 0, {}});
  bench.wait(hello);
  CHECK(bench.node.stage() == Stage::member);

  bench.stand_still(seconds(3600));
  bench.wait(hello / 2);
  bench.stand_still(seconds(60));  // another standstill gives no more time
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

TEST_CASE("a member that stood still has no bound of its own for what the leader waits for") {
  Middle bench;
  bench.say({0, Side::up}, Entry{1, {0, 1}, left("3")});
  REQUIRE(bench.node.campaigns().size() == 1);
  bench.stand_still(seconds(60));
  CHECK(bench.node.campaigns().front().deadline == Outbox::kNever);
}

TEST_CASE("rule 16: a child that is busy is not silent, until the job has waited enough for it") {
  Bench bench(0, 2);
  bench.below(1);
  auto passes = [&](milliseconds time) {
    for (milliseconds each{0}; each < time; each += milliseconds(500)) {
      bench.say({1, Side::down}, Beat{0, 0, members("1")});
      bench.wait(milliseconds(500));
    }
  };
  passes(seconds(100));
  CHECK(bench.node.tree().has(1));
  bench.node.expect_end(seconds(30));
  passes(seconds(30));
  CHECK(bench.node.tree().has(1));
  bench.node.expect_end(seconds(60));  // this gives no more time
  passes(bench.node.options().silent_bound);
  CHECK_FALSE(bench.node.tree().has(1));
}

TEST_CASE("rule 16: a feeder that is busy keeps a node from its end, and is passed on; the leader is dialled") {
  Middle middle;
  middle.say({0, Side::up}, Beat{1'000'000, 0, {}});
  middle.beats(Side::down);
  auto fence = middle.node.options().fence;
  for (milliseconds each{0}; each < 3 * fence; each += milliseconds(500)) {
    middle.say({0, Side::up}, Beat{0, 0, members("0")});
    CHECK(middle.beats(Side::down) == "v3 0 busy 0; v4 0 busy 0");
    middle.wait(milliseconds(500));
  }
  CHECK(middle.node.stage() == Stage::member);

  Bench leaf(3);
  leaf.above(1);
  leaf.asks();
  for (int each = 0; each < 10; ++each) {
    leaf.say({1, Side::up}, Beat{0, 0, members("1")});
    leaf.wait(milliseconds(500));
  }
  CHECK(leaf.asks() == "dial 0");
  for (milliseconds each{0}; each < 3 * fence; each += milliseconds(500)) {
    leaf.say({1, Side::up}, Beat{0, 0, members("1")});
    leaf.wait(milliseconds(500));
  }
  CHECK(leaf.node.stage() == Stage::member);
  leaf.wait(leaf.node.options().hello_bound);
  CHECK(leaf.node.stage() == Stage::over);
}

TEST_CASE("rule 16: a busy node that feeds another one proves nothing") {
  Bench leaf(3);
  leaf.above(1);
  leaf.node.linked({0, Side::up});
  for (milliseconds each{0}; each < leaf.node.options().fence; each += milliseconds(500)) {
    leaf.say({0, Side::up}, Beat{0, 0, members("0")});
    leaf.wait(milliseconds(500));
  }
  CHECK(leaf.node.stage() == Stage::over);
}

TEST_CASE("rule 16: the busy beats of a leader are beats") {
  Middle middle;
  middle.beats(Side::down);
  auto number = std::uint64_t{1'000'000};
  for (milliseconds each{0}; each < 2 * middle.node.options().fence; each += milliseconds(500)) {
    middle.say({0, Side::up}, Beat{number += 500, 0, members("0")});
    CHECK(middle.beats(Side::down) == fmt::format("v3 {0}; v4 {0}", number));
    middle.wait(milliseconds(500));
  }
  CHECK(middle.asks().find("dial") == std::string::npos);
  CHECK(middle.node.stage() == Stage::member);
}

TEST_CASE("rule 16: one that is busy and cannot come to a new parent is reported by who still feeds it") {
  Middle middle;  // 1, above 3 and 4
  middle.below(5);
  middle.asks();
  middle.say({5, Side::down}, Beat{0, 0, members("5")});
  CHECK(middle.beats(Side::up) == "^0 0 busy 5");
  middle.say({4, Side::down}, Beat{0, 0, members("4")});  // its own child
  CHECK(middle.beats(Side::up).empty());

  Bench leader(0, 4);  // 1, above 3, and 2
  for (Id id : {1, 2}) leader.below(id);
  auto passes = [&](milliseconds time, const char* busy) {
    for (milliseconds each{0}; each < time; each += milliseconds(500)) {
      Up suspects;
      suspects.suspects = members("3");
      leader.say({2, Side::down}, Beat{0, 0, members(busy)});
      leader.say({1, Side::down}, suspects);
      leader.wait(milliseconds(500));
    }
  };
  passes(seconds(60), "3");
  CHECK(leader.node.tree().has(3));
  passes(leader.node.options().silent_bound, "");
  CHECK_FALSE(leader.node.tree().has(3));
}

// Rule 9 of doc/protocol.md: which members are lost with a child that never came, and how soon once the job is to
// end.

namespace {

// The leader of 15 members, with arity 2: 1 is above 3 and 4, and these above 7 to 10; all have come.
struct Leader15 : Bench {
  Leader15() : Bench(0, 15) {
    for (Id id : {1, 2}) below(id);
  }
  // Lets time pass, while these members send beats.
  void passes(milliseconds time, std::initializer_list<Id> living) {
    for (milliseconds each{0}; each < time; each += milliseconds(500)) {
      for (Id id : living) say({id, Side::down}, Beat{1, 0, {}});
      wait(milliseconds(500));
    }
  }
  // 1 is lost, and by the new view the last member is to take its place.
  void lose_1() {
    node.unlinked({1, Side::down});
    passes(node.options().relink_bound, {2});
    CHECK_FALSE(node.tree().has(1));
  }
  Idset present() const {
    Idset out;
    for (Id id = 0; id < 15; ++id) {
      if (node.tree().has(id)) out.insert(id);
    }
    return out;
  }
};

}  // namespace

TEST_CASE(
    "rule 9: those below a child that never came are lost with it, but not who has come, nor those below it") {
  Leader15 it;
  it.lose_1();
  it.below(4);  // 4 dials the leader, as its parent is gone
  it.below(8);
  it.say({8, Side::down}, Bye{Farewell::moved, ""});  // 8 has moved to its parent, 3, or to 14
  it.node.unlinked({8, Side::down});
  it.passes(it.node.options().hello_bound - milliseconds(500), {2, 4});
  CHECK(it.present() == members("0,2-14"));
  it.passes(milliseconds(500), {2, 4});
  CHECK(it.present() == members("0,2,4-6,8-13"));
}

TEST_CASE("rule 9: a member that has moved can have another feeder, and is not lost with those above it") {
  Leader15 it;
  Up up;
  up.suspects = members("7");
  it.say({1, Side::down}, up);
  CHECK(it.node.tree().parent(14) == 3);
  it.lose_1();
  it.passes(it.node.options().hello_bound, {2});
  CHECK(it.present() == members("0,2,5,6,11,12,14"));
}

TEST_CASE("rule 9: the leader keeps who has dialled it, if only a parent misses it that is lost as well") {
  Leader15 it;
  it.below(7);
  Up up;
  up.suspects = members("3,7,8");
  it.say({1, Side::down}, up);
  CHECK(it.present() == members("0-2,4-7,9-14"));
  Up again;
  again.view = 1;
  again.suspects = members("7");
  it.say({1, Side::down}, again);
  CHECK_FALSE(it.node.tree().has(7));  // 7's parent is there
}

TEST_CASE("rule 9: a node reports those that have not come below a child that never came") {
  Bench bench(1, 15);
  bench.above(0);
  for (Id id : {3, 4}) bench.below(id);
  bench.node.unlinked({3, Side::down});
  bench.entry(0, 1, died("3"));
  bench.below(8, 1, 1);
  bench.asks();
  auto passes = [&](milliseconds time) {
    for (milliseconds each{0}; each < time; each += milliseconds(500)) {
      for (Id id : {4, 8}) bench.say({id, Side::down}, Beat{1, 0, {}});
      bench.say({0, Side::up}, Beat{static_cast<std::uint64_t>(bench.now.count() / 1'000'000), 0, {}});
      bench.wait(milliseconds(500));
    }
  };
  passes(bench.node.options().hello_bound - milliseconds(500));
  CHECK(bench.asks().find("suspects") == std::string::npos);
  passes(milliseconds(500));
  CHECK(bench.asks().find("suspects 7,14") != std::string::npos);
  bench.below(7, 1, 1);
  CHECK(bench.asks().find("UP 1:0 suspects 14") != std::string::npos);
}

TEST_CASE("rule 9: once the job is to end, a child has the silent bound to come to a new parent") {
  for (bool is_named_later : {false, true}) {
    Leader15 it;
    if (is_named_later) it.node.expect_end(seconds(30));
    it.lose_1();
    if (!is_named_later) it.node.expect_end(seconds(30));
    it.passes(it.node.options().silent_bound - milliseconds(500), {2});
    CHECK(it.node.tree().has(14));
    it.passes(milliseconds(500), {2});
    CHECK(it.present() == members("0,2,5,6,11-13"));
  }
  Bench starts(0, 3);
  starts.below(1);
  starts.node.expect_end(seconds(30));
  for (int each = 0; each < 20; ++each) {
    starts.say({1, Side::down}, Beat{1, 0, {}});
    starts.wait(milliseconds(1000));
  }
  CHECK(starts.node.tree().has(2));  // member 2 may still be starting
}
