// SPDX-License-Identifier: Apache-2.0
//
// Answers, which all shells send at about the same time: they go up together, and are acknowledged together.
#include "catch.hpp"

#include "bench.hpp"

namespace nacre::bulk {
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

}  // namespace nacre::bulk
