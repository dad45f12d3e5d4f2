// SPDX-License-Identifier: Apache-2.0
//
// Records on their way to the leader, one node at a time.

#include "catch.hpp"

#include "bench.hpp"

namespace nacre::bulk {

TEST_CASE("an origin numbers its records, and keeps them until the leader has taken them") {
  Bench bench(3);
  bench.node.up(9);
  CHECK(bench.asks() == "^9 hello 0");
  CHECK(bench.node.put(5, "0123456789").value());
  CHECK(bench.node.put(6, "b").value());
  CHECK(bench.asks() == "^9 3.1:1 0123456789; ^9 3.1:2 b");
  CHECK_FALSE(bench.node.put(5, "0123456789").value());
  CHECK(bench.node.own_bytes() == 2 * kHead + 11);
  CHECK(bench.hears(kUp, kNotes, note(Taken{3, 1})) == "room");
  CHECK(bench.node.own_bytes() == kHead + 1);
  CHECK(bench.hears(kUp, kNotes, note(Taken{3, 2})) == "drained");
  CHECK(bench.hears(kUp, kNotes, note(Taken{3, 1})).empty());
  CHECK(bench.hears(kUp, kNotes, note(Taken{3, 3})) ==
        "ERROR bulk: shell 9: record 3 was taken; 2 is the last one");
}

TEST_CASE("what cannot be put is refused, and a channel ends once, in any window") {
  Bench bench(3);
  CHECK(bench.node.put(5, "").error().code == EINVAL);
  CHECK(bench.node.put(5, "01234567890").error().code == EMSGSIZE);
  CHECK(bench.node.put(5, "0123456789").value());
  CHECK(bench.node.put(5, "0123456789").value());
  CHECK_FALSE(bench.node.put(5, "x").value());
  CHECK(bench.node.end(5));
  CHECK(bench.node.end(5).error().code == EPIPE);
  CHECK(bench.node.put(5, "x").error().code == EPIPE);
  CHECK_FALSE(bench.node.put(6, "x").value());
  bench.node.up(9);
  CHECK(bench.asks() == "^9 3.1:1 0123456789; ^9 hello 0; ^9 3.1:2 0123456789; ^9 3.1:3 end");
  CHECK(bench.node.broadcast(5, "x").error().code == EPERM);
  CHECK(bench.node.end_broadcast(5).error().code == EPERM);
  for (Channel each = 10; each < 10 + kMaxEndedUp - 1; ++each) CHECK(bench.node.end(each));
  CHECK(bench.node.end(100).error().code == ENOSPC);
}

TEST_CASE("on a new way all that was not taken is sent again") {
  Bench bench(3);
  bench.node.up(9);
  CHECK(bench.node.put(5, "a").value());
  CHECK(bench.node.put(5, "b").value());
  bench.set_up();
  CHECK(bench.hears(kUp, kNotes, note(Taken{3, 1})).empty());
  CHECK(bench.hears(kUp, kNotes, note(Path{})) == "^9 3.2:2 start +0; ^9 3.2:2 b");
  bench.node.no_up();
  CHECK(bench.asks().empty());
  bench.node.up(8);
  CHECK(bench.asks() == "^8 3.3:2 start +0; ^8 hello 0; ^8 3.3:2 b");
}

TEST_CASE("one Write at a time, of a bounded size") {
  Limits limits = small();
  limits.window = 1000;
  limits.write = 2 * (kHead + 1);
  Bench bench(3, limits);
  bench.take_writes = false;
  for (const char* each : {"a", "b", "c", "d", "e"}) CHECK(bench.node.put(5, each).value());
  bench.node.up(9);
  CHECK(bench.asks() == "^9 3.1:1 a 3.1:2 b; ^9 hello 0");
  bench.node.written(kUp, kNotes);
  CHECK(bench.asks().empty());
  bench.node.written(kUp, kRecords);
  CHECK(bench.asks() == "^9 3.1:3 c 3.1:4 d");
}

TEST_CASE("records of children and own ones go up in turn, and credit is given as they leave") {
  Bench bench(3);
  bench.node.child_up(4);
  bench.node.child_up(6);
  CHECK(bench.asks().empty());
  CHECK(bench.granted == 2 * small().link);
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 1, "a") + up_record(4, 0, 2, "b")).empty());
  CHECK(bench.hears(below(6), kRecords, up_record(7, 0, 1, "x") + up_record(6, 0, 1, "y")).empty());
  CHECK(bench.granted == 0);
  CHECK(bench.node.child_bytes(4) == 2 * kHead + 2);
  CHECK(bench.node.put(5, "own").value());
  CHECK(bench.node.put(5, "too").value());
  bench.node.up(9);
  CHECK(bench.asks() == "^9 4.0:1 a; ^9 hello 0; ^9 7.0:1 x; ^9 3.1:1 own; ^9 4.0:2 b; ^9 6.0:1 y; ^9 3.1:2 too");
  // Each child gets the credit for one record, with which it has more than half of its credit again.
  CHECK(bench.granted == 2 * (kHead + 1) + kHead + std::max(kHead + 10, kHead + 2 * kMaxBroadcastChannels) - kHead);
  CHECK(bench.node.child_bytes(4) == 0);
}

TEST_CASE("a record that comes once more in one attempt, as ways up lead in a circle, ends here") {
  Bench bench(3);
  bench.node.up(9);
  bench.node.child_up(4);
  bench.node.child_up(9);
  bench.set_up();
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 1, "a")) == "^9 4.0:1 a");
  CHECK(bench.hears(below(9), kRecords, up_record(4, 0, 1, "a")).empty());
  CHECK(bench.node.child_bytes(9) == 0);
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 2, "b")) == "^9 4.0:2 b");
  // The record goes on when its origin sends it again.
  CHECK(bench.hears(below(4), kRecords, up_record(4, 1, 1, "a")) == "^9 4.1:1 a");
}

TEST_CASE("credit is given back once it is 16 KiB, though the child has more than half of it left") {
  Limits limits;
  Bench bench(3, limits);
  bench.node.up(9);
  bench.node.child_up(4);
  bench.set_up();
  const std::string bytes(6000, 'x');
  for (Numbered number : {1, 2}) {
    (void)bench.hears(below(4), kRecords, up_record(4, 0, number, bytes));
    CHECK(bench.granted == 0);
  }
  (void)bench.hears(below(4), kRecords, up_record(4, 0, 3, bytes));
  CHECK(bench.granted == 3 * (kHead + bytes.size()));
}

TEST_CASE("a child that goes beyond its credit is sent away") {
  Bench bench(3);
  bench.node.child_up(4);
  std::string much = up_record(4, 0, 1, "0123456789") + up_record(4, 0, 2, "0123456789");
  CHECK(bench.hears(below(4), kRecords, much).empty());
  CHECK(bench.hears(below(4), kRecords, "x") == "ERROR bulk: shell 4: 1 bytes of records, with credit for 0");
  CHECK(bench.hears(below(4), kRecords, "x").empty());  // the link is gone
  bench.node.child_up(4);
  CHECK(bench.hears(below(4), 3, "x") == "ERROR bulk: shell 4: bytes of stream 3");
}

TEST_CASE("whose way is new tells those below, if records of theirs have passed") {
  Bench bench(3);
  bench.node.child_up(4);
  bench.node.up(9);
  bench.set_up();
  bench.node.up(8);
  CHECK(bench.asks() == "^8 hello 0");
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 1, "a")) == "^8 4.0:1 a");
  bench.node.no_up();
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 2, "b")).empty());
  bench.node.up(9);
  CHECK(bench.asks() == "^9 hello 0; v4 path");  // and the waiting record is dropped: it comes again
  CHECK(bench.granted > kHead);
  CHECK(bench.hears(below(4), kRecords, up_record(4, 1, 1, "a")) == "^9 4.1:1 a");
  CHECK(bench.hears(kUp, kNotes, note(Path{})) == "v4 path");
  CHECK(bench.hears(kUp, kNotes, note(Path{})).empty());
}

TEST_CASE("what a child has sent before it died still goes up") {
  Bench bench(3);
  bench.node.child_up(4);
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 1, "last") + up_record(4, 0, 2, "words").substr(0, 25))
            .empty());
  bench.node.child_gone(4);
  bench.node.up(9);
  CHECK(bench.asks() == "^9 4.0:1 last; ^9 hello 0");
  CHECK(bench.node.child_bytes(4) == 0);
}

TEST_CASE("nor is it dropped when the way is new, as nobody would send it again") {
  Bench bench(3);
  bench.node.up(9);
  bench.node.child_up(4);
  bench.node.child_up(6);
  bench.set_up();
  CHECK(bench.hears(below(6), kRecords, up_record(6, 0, 1, "a")) == "^9 6.0:1 a");
  bench.node.no_up();
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 1, "b")).empty());
  bench.node.child_gone(4);
  bench.node.up(8);
  CHECK(bench.asks() == "^8 4.0:1 b; ^8 hello 0; v6 path");
}

TEST_CASE("a record of an earlier attempt, or of this shell itself, goes no further") {
  Limits limits = small();
  limits.link = kHead + 10;
  Bench bench(3, limits);
  bench.node.up(9);
  bench.node.child_up(4);
  bench.node.child_up(6);
  bench.set_up();
  CHECK(bench.hears(below(4), kRecords, up_record(7, 2, 5, "a")) == "^9 7.2:5 a");
  CHECK(bench.hears(below(6), kRecords, up_record(7, 1, 5, "a")).empty());
  CHECK(bench.granted == kHead + 1);
  CHECK(bench.hears(kUp, kNotes, note(Taken{7, 5})) == "v4 taken 7:5");
  CHECK(bench.hears(below(6), kRecords, up_record(7, 2, 6, "b")) == "^9 7.2:6 b");
  CHECK(bench.hears(kUp, kNotes, note(Taken{7, 6})) == "v6 taken 7:6");
  CHECK(bench.hears(below(6), kRecords, up_record(3, 9, 1, "c")).empty());
  CHECK(bench.hears(kUp, kNotes, note(Taken{8, 6})).empty());  // no origin has this number
}

TEST_CASE("of what is taken only the newest of each origin waits") {
  Bench bench(3);
  bench.node.up(9);
  bench.node.child_up(4);
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 1, "a")) == "^9 hello 0; ^9 4.0:1 a");
  CHECK(bench.hears(below(4), kRecords, up_record(7, 0, 1, "a")) == "^9 7.0:1 a");
  bench.take_writes = false;
  CHECK(bench.hears(kUp, kNotes, note(Taken{4, 1})) == "v4 taken 4:1");
  CHECK(bench.hears(kUp, kNotes, note(Taken{4, 2}) + note(Taken{4, 5}) + note(Taken{7, 1}) + note(Taken{4, 3}))
            .empty());
  bench.node.written(below(4), kNotes);
  CHECK(bench.asks() == "v4 taken 4:5");
  bench.node.written(below(4), kNotes);
  CHECK(bench.asks() == "v4 taken 7:1");
}

TEST_CASE("the leader delivers each record once, in order, and gives credit when it is taken") {
  Limits limits = small();
  limits.link = 2 * (kHead + 1) + 10;
  Bench bench(0, limits);
  bench.node.child_up(4);
  bench.set_up();
  CHECK(bench.hears(below(4), kRecords, up_record(7, 0, 2, "b")).empty());  // 1 was lost
  CHECK(bench.granted == 0);                                                // more than half is left
  CHECK(bench.hears(below(4), kRecords, up_record(7, 1, 1, "a")) == "deliver 7:1 a");
  CHECK(bench.granted == kHead + 1);  // for the record before
  CHECK(bench.hears(below(4), kRecords, up_record(7, 1, 2, "b")) == "deliver 7:2 b");
  CHECK(bench.granted == 0);
  bench.node.taken(7, 1);
  CHECK(bench.asks() == "v4 taken 7:1");
  CHECK(bench.granted == kHead + 1);
  bench.node.taken(7, 1);
  CHECK(bench.asks().empty());
  CHECK(bench.hears(below(4), kRecords, up_record(7, 2, 2, "b")) ==
        "v4 taken 7:1");  // said again: it may have been lost
  CHECK(bench.hears(below(4), kRecords, up_record(7, 2, 3, "")) == "deliver 7:3 end");
  bench.node.taken(7, 100);
  CHECK(bench.asks() == "v4 taken 7:3");
}

TEST_CASE("what a child that is gone has sent is taken without credit for another") {
  Bench bench(0);
  bench.node.child_up(4);
  bench.set_up();
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 1, "a")) == "deliver 4:1 a");
  bench.node.child_gone(4);
  bench.node.child_up(4);
  bench.set_up();
  bench.node.taken(4, 1);
  CHECK(bench.asks().empty());
  CHECK(bench.granted == 0);
  CHECK(bench.hears(below(4), kRecords, up_record(4, 1, 1, "a")) == "v4 taken 4:1");
}

TEST_CASE("the leader's own records are delivered as all others") {
  Bench bench(0);
  CHECK(bench.node.put(5, "0123456789").value());
  CHECK(bench.node.put(5, "0123456789").value());
  CHECK_FALSE(bench.node.put(5, "c").value());
  CHECK(bench.asks() == "deliver 0:1 0123456789; deliver 0:2 0123456789");
  bench.node.taken(0, 1);
  CHECK(bench.asks() == "room");
  bench.node.taken(0, 9);
  CHECK(bench.asks() == "drained");
}

TEST_CASE("records of too many origins end the link") {
  Limits limits = small();
  limits.origins = 2;
  limits.link = 1000;
  Bench bench(3, limits);
  bench.node.child_up(4);
  CHECK(bench.hears(below(4), kRecords, up_record(5, 0, 1, "a") + up_record(6, 0, 1, "a")).empty());
  CHECK_THAT(bench.hears(below(4), kRecords, up_record(7, 0, 1, "")),
             Catch::Matchers::ContainsSubstring("more than 2 origins"));
}

}  // namespace nacre::bulk
