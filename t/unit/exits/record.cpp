// SPDX-License-Identifier: Apache-2.0
#include "exits/record.hpp"

#include <random>

#include "catch.hpp"

#include "exits/policy.hpp"

using nacre::exits::failure_code;
using nacre::exits::Record;
using nacre::value::WaitStatus;

TEST_CASE("a failure never becomes exit code 0") {
  struct Case {
    std::int64_t code;
    int counts_as;
  };
  for (const Case& each : std::vector<Case>{{0, 1},
                                            {1, 1},
                                            {5, 5},
                                            {255, 255},
                                            {256, 255},
                                            {257, 1},
                                            {300, 44},
                                            {512, 255},
                                            {-1, 255},
                                            {-256, 255},
                                            {INT64_MIN, 255}}) {
    INFO(each.code);
    CHECK(failure_code(each.code) == each.counts_as);
  }
}

TEST_CASE("each kind of record has its text and its code, and is read back from its text") {
  WaitStatus killed = WaitStatus::killed(SIGTERM);
  struct Case {
    Record record;
    std::string text;
    int code;
  };
  std::vector<Case> cases{
      {Record::of(WaitStatus::exited(0)), "x0", 0},
      {Record::of(WaitStatus::exited(139)), "x139", 139},
      {Record::of(WaitStatus::killed(SIGSEGV)), "s11", 139},
      {Record::of(WaitStatus::of_raw(0x80 | SIGABRT)), "s6+", 134},
      {Record::not_started(127), "f127", 127},
      {Record::not_started(126), "f126", 126},
      {Record::over_time(killed), "t/s15", 124},
      {Record::over_time(WaitStatus::exited(0)), "t/x0", 124},
      {Record::lost(), "l", 1},
      {Record::victim({}), "c", 0},
      {Record::victim(killed), "c/s15", 0},
      {Record::victim(WaitStatus::exited(7)), "c/x7", 0},
      {Record::gone({}), "g", 0},
      {Record::gone(killed), "g/s15", 0},
      {Record::victim(WaitStatus::of_raw(0x80 | SIGQUIT)), "c/s3+", 0},
  };
  for (const Case& each : cases) {
    INFO(each.text);
    CHECK(each.record.str() == each.text);
    CHECK(each.record.code() == each.code);
    auto read = Record::parse(each.text);
    REQUIRE(read);
    CHECK(*read == each.record);
  }
  CHECK(Record::of(WaitStatus::exited(139)) != Record::of(WaitStatus::killed(SIGSEGV)));
}

TEST_CASE("what is no record is refused") {
  for (const char* text :
       {"",   "x",   "x256", "x-1", "s0",  "s128",   "s", "s+", "s9++", "f",   "f0",  "f256", "l1",      "c/",
        "g/", "c/l", "c/c",  "c15", "t15", "t/f127", "0", "15", "x1 ",  " x1", "xx1", "C",    "c/s15/x0"}) {
    INFO(text);
    auto read = Record::parse(text);
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find("expected how a task ended") == 0);
  }
}

using namespace nacre::exits;  // NOLINT
using nacre::value::Idset;

namespace {

Record exited(int code) { return Record::of(WaitStatus::exited(code)); }

}  // namespace

TEST_CASE("the first record of a rank stands, and add() returns those that had none") {
  Outcomes outcomes;
  CHECK(outcomes.ranks().empty());
  CHECK(outcomes.add(Idset::range(0, 3), exited(0)) == Idset::range(0, 3));
  CHECK(outcomes.add(Idset::range(2, 5), Record::lost()) == Idset::range(4, 5));
  CHECK(outcomes.add(Idset::range(2, 5), exited(9)).empty());
  CHECK(outcomes.add({}, exited(9)).empty());
  CHECK(outcomes.ranks() == Idset::range(0, 5));
  CHECK(outcomes.of(3) == exited(0));
  CHECK(outcomes.of(4) == Record::lost());
  CHECK_FALSE(outcomes.of(6));
  std::vector<Outcomes::Class> classes = outcomes.classes();
  REQUIRE(classes.size() == 2);
  CHECK(classes[0] == Outcomes::Class{Record::lost(), Idset::range(4, 5)});
  CHECK(classes[1] == Outcomes::Class{exited(0), Idset::range(0, 3)});
  CHECK(outcomes.in_order() == std::vector{classes[1], classes[0]});
}

TEST_CASE("a rank that starts again has no record, until it has another one") {
  Outcomes out;
  out.add(Idset::parse("0-3").value(), Record::of(WaitStatus::exited(0)));
  out.add(Idset::parse("4").value(), Record::of(WaitStatus::exited(3)));
  out.forget(Idset::parse("1,4").value());
  CHECK(out.ranks().str() == "0,2-3");
  CHECK_FALSE(out.of(4));
  CHECK(out.classes().size() == 1);
  CHECK(out.in_order().size() == 1);
  CHECK(out.add(Idset::parse("0-4").value(), Record::of(WaitStatus::exited(7))).str() == "1,4");
  CHECK(out.in_order().back().second.str() == "1,4");
}

TEST_CASE("the policy max: the largest code of all tasks; victims count as nothing") {
  Policy policy = Policy::max();
  Outcomes outcomes;
  CHECK(policy.code(outcomes) == 0);
  outcomes.add(Idset::range(0, 1), Record::victim(WaitStatus::killed(15)));
  CHECK(policy.code(outcomes) == 0);
  outcomes.add(Idset::range(2, 2), Record::lost());
  CHECK(policy.code(outcomes) == 1);
  outcomes.add(Idset::range(3, 3), exited(9));
  CHECK(policy.code(outcomes) == 9);
  outcomes.add(Idset::range(4, 4), Record::over_time({}));
  CHECK(policy.code(outcomes) == 124);
  outcomes.add(Idset::range(5, 5), Record::not_started(127));
  CHECK(policy.code(outcomes) == 127);
  outcomes.add(Idset::range(6, 6), Record::of(WaitStatus::killed(11)));
  CHECK(policy.code(outcomes) == 139);
}

TEST_CASE("records of different ranks give the same outcome in any order, and each rank is in one class") {
  std::mt19937 random(20261122);
  const std::vector<Record> kinds{exited(0),
                                  exited(3),
                                  Record::of(WaitStatus::killed(11)),
                                  Record::lost(),
                                  Record::victim({}),
                                  Record::victim(WaitStatus::killed(15)),
                                  Record::over_time({}),
                                  Record::not_started(127)};
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<Idset, Record>> all;
    Idset::Id next = 0;
    for (int i = 0; i < 20; ++i) {
      Idset::Id last = next + random() % 4;
      all.emplace_back(Idset::range(next, last), kinds[random() % kinds.size()]);
      next = last + 1;
    }
    Outcomes in_order;
    for (const auto& [ranks, record] : all) in_order.add(ranks, record);
    std::shuffle(all.begin(), all.end(), random);
    Outcomes shuffled;
    for (const auto& [ranks, record] : all) shuffled.add(ranks, record);
    REQUIRE(in_order.classes() == shuffled.classes());
    REQUIRE(Policy::max().code(in_order) == Policy::max().code(shuffled));
    std::uint64_t sum = 0;
    for (const auto& [record, ranks] : shuffled.classes()) sum += ranks.size();
    REQUIRE(sum == next);
    REQUIRE(shuffled.ranks() == Idset::range(0, next - 1));
  }
}
