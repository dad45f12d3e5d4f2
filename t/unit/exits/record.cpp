// SPDX-License-Identifier: Apache-2.0
#include "exits/record.hpp"

#include "catch.hpp"

#include <csignal>
#include <vector>

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
