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

// Records on their way to the leader, one node at a time.

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

// Answers, which all shells send at about the same time: they go up together, and are acknowledged together.

namespace {

std::string answer(Id origin, Numbered number, std::string_view bytes) {
  return up_record(origin, 0, number, bytes, kAnswers);
}

Limits for_answers() {
  Limits out = small();
  out.window = out.link = 1000;
  out.write = 1000;
  return out;
}

// Shell 3 in the middle: above it 9, below it 4 and 6.
struct Middle : Bench {
  Middle() : Bench(3, for_answers()) {
    node.view(1, {4, 6});
    node.up(9);
    node.child_up(4);
    node.child_up(6);
    set_up();
  }
};

}  // namespace

TEST_CASE("answers go up together, once this shell and all children have answered") {
  Middle bench;
  CHECK(bench.hears(below(4), kRecords, answer(4, 1, "a")) == "wait");
  CHECK(bench.node.put(kAnswers, "own").value());
  CHECK(bench.asks().empty());
  CHECK(bench.hears(below(6), kRecords, answer(6, 1, "b") + answer(7, 1, "c")) ==
        "^9 4.0:1 a 6.0:1 b 3.1:1 own 7.0:1 c");
  CHECK(bench.hears(below(4), kRecords, answer(4, 2, "a")) == "wait");  // the next question
}

TEST_CASE("they wait for a while only, and so does what comes after that") {
  Middle bench;
  CHECK(bench.hears(below(4), kRecords, answer(4, 1, "a")) == "wait");
  CHECK(bench.node.put(kAnswers, "own").value());
  bench.node.waited();
  CHECK(bench.asks() == "^9 4.0:1 a 3.1:1 own");
  bench.node.waited();
  CHECK(bench.asks().empty());
  CHECK(bench.hears(below(6), kRecords, answer(6, 1, "b")) == "wait");
  bench.node.waited();
  CHECK(bench.asks() == "^9 6.0:1 b");
}

TEST_CASE("all that is more than one Write goes, without another wait") {
  Limits limits = for_answers();
  limits.write = 1;
  Bench bench(3, limits);
  bench.node.view(1, {4});
  bench.node.up(9);
  bench.node.child_up(4);
  bench.set_up();
  CHECK(bench.hears(below(4), kRecords, answer(4, 1, "a") + answer(5, 1, "b") + answer(6, 1, "c")) == "wait");
  CHECK(bench.node.put(kAnswers, "own").value());
  CHECK(bench.asks() == "^9 4.0:1 a; ^9 3.1:1 own; ^9 5.0:1 b; ^9 6.0:1 c");
}

TEST_CASE("nobody waits for a child without a link, or for a shell that is no child of the view") {
  Middle bench;
  bench.node.child_gone(6);
  bench.node.child_up(8);
  bench.set_up();
  CHECK(bench.hears(below(4), kRecords, answer(4, 1, "a")) == "wait");
  CHECK(bench.node.put(kAnswers, "own").value());
  CHECK(bench.asks() == "^9 4.0:1 a 3.1:1 own");
  CHECK(bench.hears(below(4), kRecords, answer(4, 2, "a")) == "wait");
  CHECK(bench.node.put(kAnswers, "own").value());
  CHECK(bench.asks() == "^9 4.0:2 a 3.1:2 own");
}

TEST_CASE("a leaf has nobody to wait for") {
  Bench bench(3, for_answers());
  bench.node.view(1, {});
  bench.node.up(9);
  bench.set_up();
  CHECK(bench.node.put(kAnswers, "own").value());
  CHECK(bench.asks() == "^9 3.1:1 own");
}

TEST_CASE("what is no answer does not wait, and takes all with it") {
  Middle bench;
  CHECK(bench.hears(below(4), kRecords, answer(4, 1, "a")) == "wait");
  CHECK(bench.hears(below(6), kRecords, up_record(6, 0, 1, "output")) == "^9 4.0:1 a 6.0:1 output");
  CHECK(bench.hears(below(4), kRecords, answer(4, 2, "a")) == "wait");
  CHECK(bench.node.put(5, "output").value());
  CHECK(bench.asks() == "^9 3.1:1 output 4.0:2 a");
  CHECK(bench.hears(below(4), kRecords, answer(4, 3, "a")) == "wait");
  CHECK(bench.node.end(kAnswers));
  CHECK(bench.asks() == "^9 3.1:2 end 4.0:3 a");
}

TEST_CASE("on a new way the answers wait again") {
  Middle bench;
  CHECK(bench.node.put(kAnswers, "own").value());
  CHECK(bench.asks() == "wait");
  bench.node.waited();
  CHECK(bench.asks() == "^9 3.1:1 own");
  bench.node.no_up();
  bench.node.up(8);
  CHECK(bench.asks() == "wait; ^8 hello 0");
  bench.node.waited();
  CHECK(bench.asks() == "^8 3.2:1 own");
}

TEST_CASE("the leader acknowledges answers when there are many, or with another record") {
  Limits limits;
  Bench bench(0, limits);
  bench.node.child_up(4);
  bench.set_up();
  std::string bytes(6000, 'x');
  for (Numbered number : {1, 2}) {
    (void)bench.hears(below(4), kRecords, answer(4, number, bytes));
    bench.node.taken(4, number);
    CHECK(bench.asks().empty());
  }
  (void)bench.hears(below(4), kRecords, answer(4, 3, bytes));
  bench.node.taken(4, 3);
  CHECK(bench.asks() == "v4 taken 4:3");
  (void)bench.hears(below(4), kRecords, answer(4, 4, "a"));
  bench.node.taken(4, 4);
  CHECK(bench.asks().empty());
  CHECK(bench.hears(below(4), kRecords, up_record(4, 0, 5, "output")) == "deliver 4:5 output");
  bench.node.taken(4, 5);
  CHECK(bench.asks() == "v4 taken 4:5");
}

TEST_CASE("an origin always has room for a record beside the answers that are not acknowledged") {
  Limits limits = small();
  limits.window = kHead + 10 + kHead + 1;  // one record, and one answer of a byte
  Bench bench(0, limits);
  bench.node.child_up(4);
  bench.set_up();
  CHECK(bench.hears(below(4), kRecords, answer(4, 1, "a")) == "deliver 4:1 a");
  bench.node.taken(4, 1);
  CHECK(bench.asks().empty());
  CHECK(bench.hears(below(4), kRecords, answer(4, 2, "a")) == "deliver 4:2 a");
  bench.node.taken(4, 2);
  CHECK(bench.asks() == "v4 taken 4:2");
}

// The broadcast, one node at a time.

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
