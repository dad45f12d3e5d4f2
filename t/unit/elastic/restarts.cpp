// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using elastic::Restarts;

TEST_CASE("restarts of all tasks share one limit, and each has its number") {
  Restarts restarts({3});
  CHECK(restarts.take(7, 1)->number == 1);
  CHECK(restarts.take(2, 1)->number == 2);
  CHECK(restarts.take(7, 1)->number == 3);
  CHECK(restarts.take(5, 1).error().message == "the job has used 3 of 3 restarts");
  CHECK(restarts.take_job(1, 5).error().message == "the job has used 3 of 3 restarts");
  CHECK(restarts.take_node(2, 1, 5).error().message == "the job has used 3 of 3 restarts");
  CHECK(restarts.used() == 3);
}

TEST_CASE("a task may have a limit of its own, and what is refused by it uses nothing") {
  Restarts restarts({4, 2});
  CHECK(restarts.take(0, 1));
  CHECK(restarts.take(0, 1));
  CHECK(restarts.take(0, 1).error().message == "the task has used 2 of 2 restarts");
  CHECK(restarts.take(1, 1)->number == 3);
  CHECK(restarts.take_job(1, std::nullopt)->number == 4);  // a lost shell's
  CHECK_FALSE(restarts.take(1, 1));
}

TEST_CASE("where tasks start again together the one that has failed pays for it, and no other") {
  Restarts restarts({100, 2});
  CHECK(restarts.take_job(1, 0));
  CHECK(restarts.take_node(7, 1, 0));
  CHECK(restarts.take_job(1, 0).error().message == "the task has used 2 of 2 restarts");
  CHECK(restarts.take_node(7, 1, 0).error().message == "the task has used 2 of 2 restarts");
  CHECK(restarts.take(0, 1).error().message == "the task has used 2 of 2 restarts");
  CHECK(restarts.take_job(1, 1)->number == 3);
  CHECK(restarts.take_job(1, std::nullopt)->number == 4);
}

TEST_CASE("the wait doubles for each task up to the longest, and begins anew after a long run") {
  Restarts restarts({1000, 1000, 0.5, 5});
  for (double expected : {0.5, 1.0, 2.0, 4.0, 5.0, 5.0}) CHECK(restarts.take(3, 1)->delay == expected);
  CHECK(restarts.take(4, 1)->delay == 0.5);
  CHECK(restarts.take(3, Restarts::kSteady - 1)->delay == 5);
  CHECK(restarts.take(3, Restarts::kSteady)->delay == 0.5);
  CHECK(restarts.take(3, 1)->delay == 1);
  for (double expected : {0.5, 1.0, 2.0}) CHECK(restarts.take_job(1, 9)->delay == expected);
  for (double expected : {0.5, 1.0, 2.0}) CHECK(restarts.take_node(7, 1, 9)->delay == expected);
  CHECK(restarts.take_node(8, 1, 9)->delay == 0.5);
  CHECK(restarts.take_node(7, Restarts::kSteady, 9)->delay == 0.5);
  Restarts at_once({1000, 1000, 0, 0});
  for (int i = 0; i < 100; ++i) CHECK(at_once.take(0, 0)->delay == 0);
}

TEST_CASE("who takes what others have been granted goes on as they do") {
  Restarts first({10, 3, 1, 60});
  for (int i = 0; i < 2; ++i) REQUIRE(first.take(4, 1));
  REQUIRE(first.take_job(1, std::nullopt));
  Restarts second({10, 3, 1, 60});
  REQUIRE(second.take(JsonAt::root(first.json())));
  for (Restarts* each : {&first, &second}) {
    CHECK(each->take(4, 1)->number == 4);
    CHECK(each->take(4, 1).error().message == "the task has used 3 of 3 restarts");
    CHECK(each->take_job(1, std::nullopt)->delay == 2);
  }
  for (const char* text :
       {"[]", R"({"used": 1, "jobs_in_a_row": 0})", R"({"used": -1, "jobs_in_a_row": 0, "tasks": []})",
        R"({"used": 1, "jobs_in_a_row": 0, "tasks": [[1, 2]]})"}) {
    CAPTURE(text);
    Json json = Json::parse(text);
    CHECK_FALSE(second.take(JsonAt::root(json)));
  }
}
