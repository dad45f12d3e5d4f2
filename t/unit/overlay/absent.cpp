// SPDX-License-Identifier: Apache-2.0
//
// Rule 9 of doc/protocol.md: which members are lost with a child that never came, and how soon once the job is to
// end.

#include "catch.hpp"

#include "bench.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

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
