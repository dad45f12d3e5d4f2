// SPDX-License-Identifier: Apache-2.0
//
// A node that becomes the leader in place of another one, and nodes that get another leader.
#include "bench.hpp"

namespace nacre::bulk {
namespace {

constexpr Numbered kSecond = Numbered{2} << 40;  // what precedes the records of the leader of term 2

}  // namespace

TEST_CASE("who comes to lead is its own leader, and asks those below for what was not taken") {
  Bench bench(3);
  bench.node.child_up(4);
  bench.node.up(9);
  CHECK(bench.node.put(5, "a").value());
  CHECK(bench.node.put(5, "b").value());
  bench.set_up();
  (void)bench.hears(kUp, kNotes, note(Taken{3, 1}));
  bench.node.no_up();
  bench.set_up();
  bench.node.lead(2);
  CHECK(bench.asks() == "deliver 3:2 b; v4 path");
  CHECK(bench.node.put(5, "c").value());
  CHECK(bench.asks() == "deliver 3:3 c");
  bench.node.taken(3, 3);
  CHECK(bench.asks() == "drained");
  CHECK(bench.node.leads());
}

TEST_CASE("of an origin nothing counts until an attempt has begun, which gives its next number") {
  Bench bench(3);
  bench.node.child_up(4);
  bench.set_up();
  bench.node.lead(2);
  bench.set_up();
  CHECK(
      bench.hears(below(4), kRecords, up_record(4, 1, 7, "z")).empty());  // earlier records were lost on their way
  CHECK(bench.hears(below(4), kRecords, up_start(4, 2, 6)).empty());
  CHECK(bench.hears(below(4), kRecords, up_record(4, 2, 6, "y")) == "deliver 4:6 y");
  CHECK(bench.hears(below(4), kRecords, up_record(4, 1, 7, "z")).empty());  // the record is of an earlier attempt
  CHECK(bench.hears(below(4), kRecords, up_start(4, 3, 6)).empty());
  CHECK(bench.hears(below(4), kRecords, up_record(4, 3, 6, "y")) == "v4 taken 4:5");  // the record has come before
  CHECK(bench.hears(below(4), kRecords, up_record(4, 3, 7, "z")) == "deliver 4:7 z");
  bench.node.taken(4, 7);
  CHECK(bench.asks() == "v4 taken 4:7");
}

TEST_CASE("an origin that nothing was taken of begins with its first record") {
  Bench bench(3);
  bench.node.child_up(4);
  bench.node.lead(2);
  bench.set_up();
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 1, "a")) == "deliver 4:1 a");
}

TEST_CASE("who comes to lead learns which channels have ended") {
  Bench bench(3);
  bench.node.child_up(4);
  bench.node.up(9);
  CHECK(bench.node.put(5, "a").value());
  CHECK(bench.node.end(5));
  (void)bench.hears(kUp, kNotes, note(Taken{3, 2}));
  bench.set_up();
  bench.node.no_up();
  bench.node.lead(2);
  CHECK(bench.asks() == "deliver 3:2 end; v4 path");
  CHECK(bench.hears(below(4), kRecords, up_start(4, 2, 9, {5, 6})) == "deliver 4:7 end; deliver 4:8 end");
  CHECK(bench.hears(below(4), kRecords, up_record(4, 2, 9, "more", 7)) == "deliver 4:9 more");
  CHECK(bench.hears(below(4), kRecords, up_start(5, 2, 2, {5, 6})) ==
        "ERROR bulk: shell 4: a start after fewer records than channels have ended");
}

TEST_CASE("an attempt after an end says so") {
  Bench bench(3);
  CHECK(bench.node.end(5));
  bench.node.up(9);
  bench.set_up();
  (void)bench.hears(kUp, kNotes, note(Taken{3, 1}));
  bench.node.up(8);
  CHECK(bench.asks() == "^8 3.2:2 start +1; ^8 hello 0");
}

TEST_CASE("another leader's broadcast has its own numbers, and what of the one before has not come is lost") {
  Bench bench(3);
  bench.node.up(9);
  bench.node.child_up(4);
  bench.node.view(1, {4});
  bench.set_up();
  CHECK(bench.hears(below(4), kNotes, note(BulkHello{false, 0})).empty());
  CHECK(bench.hears(kUp, kRecords, down_record(0, 1, "a")) == "announce 1 a; v4 1(0) a");
  bench.node.lead(2);
  CHECK(bench.asks() == fmt::format("v4 start {0} {0} +0; v4 path stable {0}", kSecond));
  CHECK(bench.node.broadcast(5, "b").value());
  CHECK(bench.asks() == fmt::format("announce {} b; v4 {}({}) b", kSecond + 1, kSecond + 1, kSecond));
  bench.node.consumed(1);
  bench.node.consumed(kSecond + 1);
  CHECK(bench.node.end_broadcast(5));
  CHECK(bench.node.end_broadcast(5).error().code == EPIPE);
}

TEST_CASE("who is fed goes on with another leader's broadcast, and passes it on") {
  Bench bench(3);
  bench.node.up(9);
  bench.node.child_up(4);
  bench.set_up();
  (void)bench.hears(below(4), kNotes, note(BulkHello{false, 0}));
  CHECK(bench.hears(kUp, kRecords, down_record(0, 1, "a")) == "announce 1 a; v4 1(0) a");
  CHECK(bench.hears(kUp, kRecords, start_record(kSecond, kSecond, {7})) ==
        fmt::format("announce {0} end; v4 start {0} {0} +1; v4 stable {0}", kSecond));
  CHECK(bench.hears(kUp, kRecords, down_record(kSecond, kSecond + 1, "b")) ==
        fmt::format("announce {} b; v4 {}({}) b", kSecond + 1, kSecond + 1, kSecond));
}

TEST_CASE("another leader's notes may come before the start of its broadcast") {
  Bench bench(3);
  bench.node.up(9);
  bench.set_up();
  CHECK(bench.hears(kUp, kRecords, down_record(0, 1, "a")) == "announce 1 a");
  CHECK(bench.hears(kUp, kNotes, note(Stable{kSecond})).empty());  // the node is not cut off, though it lacks
                                                                   // record 1
  CHECK(bench.hears(kUp, kRecords, start_record(kSecond, kSecond, {})).empty());
  CHECK(bench.hears(kUp, kRecords, down_record(kSecond, kSecond + 1, "b")) ==
        fmt::format("announce {} b", kSecond + 1));
}

}  // namespace nacre::bulk
