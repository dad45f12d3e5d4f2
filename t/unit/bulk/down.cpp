// SPDX-License-Identifier: Apache-2.0
//
// The broadcast, one node at a time.
#include "catch.hpp"

#include "bench.hpp"

namespace nacre::bulk {

TEST_CASE("what is broadcast goes to all children, and to the leader itself") {
  Bench bench(0);
  bench.node.view(0, {1, 2});
  bench.node.child_up(1);
  bench.node.child_up(2);
  CHECK(bench.hears(below(1), kNotes, note(BulkHello{false, 0})).empty());
  CHECK(bench.node.broadcast(5, "a").value());
  CHECK(bench.asks() == "announce 1 a; v1 1(0) a");
  CHECK(bench.hears(below(2), kNotes, note(BulkHello{false, 0})) == "v2 1(0) a");
  CHECK(bench.node.end_broadcast(5));
  CHECK(bench.asks() == "announce 2 end; v1 2(0) end; v2 2(0) end");
  CHECK(bench.node.end_broadcast(5).error().code == EPIPE);
  CHECK(bench.node.broadcast(5, "x").error().code == EPIPE);
  CHECK(bench.node.broadcast(6, "").error().code == EINVAL);
  CHECK(bench.node.broadcast(6, "01234567890").error().code == EMSGSIZE);
}

TEST_CASE("the leader keeps a record until all of the view have taken it, and then has room") {
  Bench bench(0);
  bench.node.view(3, {1, 2});
  for (Id id : {1, 2}) {
    bench.node.child_up(id);
    (void)bench.hears(below(id), kNotes, note(BulkHello{false, 0}));
  }
  CHECK(bench.node.broadcast(5, "0123456789").value());
  CHECK(bench.node.broadcast(5, "0123456789").value());
  CHECK_FALSE(bench.node.broadcast(5, "0123456789").value());
  bench.node.consumed(2);
  bench.set_up();
  std::size_t both = bench.node.broadcast_bytes();
  CHECK(bench.hears(below(1), kNotes, note(Heard{3, 2})).empty());
  CHECK(bench.hears(below(2), kNotes, note(Heard{2, 2})).empty());  // of another view
  CHECK(bench.node.broadcast_bytes() == both);
  CHECK(bench.hears(below(2), kNotes, note(Heard{3, 1})) == "broadcast room; v1 stable 1; v2 stable 1");
  CHECK(bench.node.broadcast_bytes() == both / 2);
  CHECK(bench.node.broadcast(5, "c").value());
  CHECK(bench.asks() == "announce 3 c; v1 3(1) c; v2 3(1) c");
  CHECK(bench.hears(below(2), kNotes, note(Heard{3, 4})) ==
        "ERROR bulk: shell 2: broadcast record 4 was acknowledged; 3 is the last one");
}

TEST_CASE("the leader waits for its own owner, and for a child that has not come") {
  Bench bench(0);
  bench.node.view(0, {1});
  CHECK(bench.node.broadcast(5, "a").value());
  bench.node.consumed(1);
  CHECK(bench.node.broadcast_bytes() > 0);
  bench.node.child_up(1);
  (void)bench.hears(below(1), kNotes, note(BulkHello{false, 1}) + note(Heard{0, 1}));
  CHECK(bench.node.broadcast_bytes() == 0);
  CHECK(bench.node.broadcast(5, "b").value());
  (void)bench.hears(below(1), kNotes, note(Heard{0, 2}));
  CHECK(bench.node.broadcast_bytes() > 0);
  bench.node.consumed(2);
  CHECK(bench.node.broadcast_bytes() == 0);
}

TEST_CASE("a hop passes on what comes, and says what all below have taken, in which view") {
  Bench bench(3);
  bench.node.up(9);
  CHECK(bench.asks() == "^9 hello 0");
  bench.node.child_up(7);
  CHECK(bench.hears(below(7), kNotes, note(BulkHello{false, 0})).empty());
  CHECK(bench.hears(kUp, kRecords, down_record(0, 1, "a")) == "announce 1 a; v7 1(0) a");
  bench.node.consumed(1);
  CHECK(bench.asks().empty());  // the node has no view yet
  bench.node.view(4, {7});
  CHECK(bench.hears(below(7), kNotes, note(Heard{5, 1})).empty());
  bench.node.view(5, {7});
  CHECK(bench.asks() == "^9 heard 1 in 5");
  CHECK(bench.hears(kUp, kRecords, down_record(0, 2, "b")) == "announce 2 b; v7 2(0) b");
  CHECK(bench.hears(below(7), kNotes, note(Heard{5, 2})).empty());
  bench.node.consumed(2);
  CHECK(bench.asks() == "^9 heard 2 in 5");
  bench.node.view(6, {});
  CHECK(bench.asks() == "^9 heard 2 in 6");
  CHECK(bench.hears(below(7), kNotes, note(Heard{4, 2})) ==
        "ERROR bulk: shell 7: a view older than the one before");
}

TEST_CASE("what not all have is kept for others, and dropped when all have it") {
  Bench bench(3);
  bench.node.view(0, {});
  bench.node.up(9);
  (void)bench.hears(kUp, kRecords, down_record(0, 1, "a") + down_record(0, 2, "b"));
  bench.node.consumed(2);
  bench.set_up();
  CHECK(bench.node.broadcast_bytes() == 2 * (kHead + 1));
  bench.node.child_up(7);
  CHECK(bench.hears(below(7), kNotes, note(BulkHello{false, 1})) == "v7 2(0) b");
  CHECK(bench.hears(kUp, kRecords, down_record(1, 3, "c")) == "announce 3 c; v7 3(1) c");
  CHECK(bench.node.broadcast_bytes() == 2 * (kHead + 1));
  bench.node.consumed(3);
  CHECK(bench.asks() == "^9 heard 3 in 0");
  CHECK(bench.hears(kUp, kNotes, note(Stable{2})) == "v7 stable 2");
  CHECK(bench.node.broadcast_bytes() == kHead + 1);
  CHECK(bench.hears(kUp, kNotes, note(Stable{3})) == "v7 stable 3");
  CHECK(bench.node.broadcast_bytes() == 0);
  bench.node.up(8);
  CHECK(bench.asks() == "^8 hello 3 heard 3 in 0");
}

TEST_CASE("a broadcast that breaks its own rules ends the link") {
  auto fresh = [](const std::string& bytes) {
    Bench bench(3);
    bench.node.up(9);
    bench.set_up();
    return bench.hears(kUp, kRecords, bytes);
  };
  CHECK(fresh(down_record(0, 2, "a")) == "ERROR bulk: shell 9: broadcast record 2 after 0");
  CHECK(fresh(down_record(1, 1, "a")) == "ERROR bulk: shell 9: record 1 is stable before it comes");
  CHECK(fresh(start_record(0, 2, {})) == "ERROR bulk: shell 9: a start after 0 for a shell that has 0");
  CHECK(fresh(start_record(2, 2, {4, 4})) == "ERROR bulk: shell 9: channels that do not ascend");
  Limits limits = small();
  Bench bench(3, limits);
  bench.node.up(9);
  std::string error;
  for (Numbered number = 1; error.empty(); ++number) {
    CHECK(bench.node.broadcast_bytes() <= limits.broadcast + kMaxBroadcastChannels * kHead);
    auto done = bench.node.received(kUp, kRecords, down_record(0, number, "0123456789"));
    if (!done) error = done.error().message;
  }
  CHECK_THAT(error, Catch::Matchers::ContainsSubstring("more than 66 bytes that not all have"));
}

TEST_CASE("hello is said once, and first") {
  Bench bench(3);
  bench.node.child_up(7);
  CHECK(bench.hears(below(7), kNotes, note(Heard{0, 0})) == "ERROR bulk: shell 7: hello comes first");
  bench.node.child_up(7);
  CHECK(bench.hears(below(7), kNotes, note(BulkHello{}) + note(BulkHello{})) ==
        "ERROR bulk: shell 7: a second hello");
}

TEST_CASE("a newcomer begins where its first parent is, and hears which channels have ended") {
  Bench parent(0);
  parent.node.view(0, {});
  CHECK(parent.node.end_broadcast(8));
  parent.node.consumed(1);
  CHECK(parent.node.broadcast(5, "a").value());
  parent.set_up();
  parent.node.child_up(7);
  CHECK(parent.hears(below(7), kNotes, note(BulkHello{true, 0})) == "v7 start 1 2 +1; v7 stable 1; v7 2(1) a");

  Bench bench(7, small(), true);
  bench.node.view(3, {});
  bench.node.up(9);
  CHECK(bench.asks() == "^9 hello newcomer");
  bench.node.child_up(6);
  CHECK(bench.hears(below(6), kNotes, note(BulkHello{false, 2})).empty());
  CHECK(bench.hears(kUp, kNotes, note(Stable{1})).empty());
  CHECK(bench.hears(kUp, kRecords, start_record(1, 2, {8})) == "announce 2 end; ^9 heard 1 in 3; v6 stable 1");
  CHECK(bench.hears(kUp, kRecords, down_record(1, 2, "a")) == "^9 heard 2 in 3");
  CHECK(bench.hears(kUp, kRecords, down_record(1, 3, "b")) == "announce 3 b; v6 3(1) b");
  CHECK(bench.hears(kUp, kRecords, start_record(4, 4, {})) == "cut off");
}

TEST_CASE("who is left behind by the broadcast is told so, and its records still go up") {
  Bench bench(3);
  bench.node.view(0, {});
  SECTION("by those who feed it") {
    bench.node.up(9);
    (void)bench.hears(kUp, kRecords, down_record(0, 1, "a"));
    CHECK(bench.hears(kUp, kRecords, start_record(2, 2, {}) + down_record(2, 3, "c")) == "cut off");
  }
  SECTION("by a record that others had before its owner took the last") {
    bench.node.up(9);
    (void)bench.hears(kUp, kRecords, down_record(0, 1, "a"));
    CHECK(bench.hears(kUp, kRecords, down_record(1, 2, "b") + down_record(2, 3, "c")) == "cut off");
    CHECK(bench.node.broadcast_bytes() == kHead + 1);  // what its owner has not taken
  }
  SECTION("by what all have") {
    bench.node.up(9);
    (void)bench.hears(kUp, kRecords, down_record(0, 1, "a"));
    CHECK(bench.hears(kUp, kNotes, note(Stable{1})) == "cut off");
    CHECK(bench.node.broadcast_bytes() == kHead + 1);
    bench.node.consumed(1);
    CHECK(bench.node.broadcast_bytes() == 0);
    bench.set_up();
  }
  CHECK(bench.node.put(5, "x").value());
  CHECK(bench.asks() == "^9 3.1:1 x");
}

TEST_CASE("a newcomer may go on where another parent is, as long as it misses nothing that is for it") {
  Bench bench(7, small(), true);
  bench.node.view(3, {});
  bench.node.up(9);
  (void)bench.hears(kUp, kRecords, start_record(1, 4, {}));
  bench.node.up(9);
  CHECK(bench.asks() == "^9 hello 1 heard 1 in 3");
  CHECK(bench.hears(kUp, kRecords, start_record(4, 9, {})) == "^9 heard 4 in 3");
  CHECK(bench.hears(kUp, kRecords, down_record(4, 5, "e")) == "announce 5 e");

  Bench early(7, small(), true);
  early.node.up(9);
  early.set_up();
  CHECK(early.hears(kUp, kRecords, down_record(0, 1, "a")) ==
        "ERROR bulk: shell 9: a broadcast record before a newcomer's start");
}

TEST_CASE("a broadcast has a bounded number of channels") {
  Bench bench(0);
  bench.node.view(0, {});
  for (std::size_t channel = 0; channel < kMaxBroadcastChannels; ++channel) {
    REQUIRE(bench.node.end_broadcast(static_cast<Channel>(channel)));
  }
  CHECK(bench.node.end_broadcast(60'000).error().code == ENOSPC);
  bench.node.child_up(7);
  bench.set_up();
  CHECK_THAT(bench.hears(below(7), kNotes, note(BulkHello{true, 0})),
             Catch::Matchers::StartsWith("v7 start 0 1024 +1024"));
}

}  // namespace nacre::bulk
