// SPDX-License-Identifier: Apache-2.0
#include "front/ps_verb.hpp"

#include "catch.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::front;  // NOLINT

namespace {

using Rows = std::vector<std::vector<std::string>>;

PlaceOfTask placed(std::uint32_t rank, const char* host, const char* cpus) {
  PlaceOfTask out;
  out.rank = rank;
  out.host = host;
  out.parts[0] = {cpus, "why"};
  out.cpus_now = cpus;
  return out;
}

}  // namespace

TEST_CASE("tasks that are placed alike have their rows together, on all hosts") {
  std::vector<PlaceOfTask> tasks = {placed(0, "n0", "0"), placed(1, "n0", "1"), placed(2, "n1", "0"),
                                    placed(3, "n1", "1")};
  for (PlaceOfTask& each : tasks) each.parts[3] = {"eth0", "near"};
  CHECK(place_rows(tasks, true) == Rows{{"0,2", "n[0-1]", "cpus", "0", "why"},
                                        {"", "", "nics", "eth0", "near"},
                                        {"1,3", "n[0-1]", "cpus", "1", "why"},
                                        {"", "", "nics", "eth0", "near"}});
  Rows all = place_rows(tasks, false);
  REQUIRE(all.size() == 8);
  CHECK(all[2] == std::vector<std::string>{"1", "n0", "cpus", "1", "why"});
  CHECK(all[4] == std::vector<std::string>{"2", "n1", "cpus", "0", "why"});
}

TEST_CASE("what is not as planned is said, and is no reason to be with others") {
  std::vector<PlaceOfTask> tasks = {placed(0, "", "0-1"), placed(1, "", "0-1"), placed(2, "", "0-1")};
  tasks[1].cpus_now = "1";
  tasks[2].unset = "dry-run";
  CHECK(place_rows(tasks, true) == Rows{{"0", "", "cpus", "0-1", "why"},
                                        {"1", "", "cpus", "0-1", "why; its process may use 1 now"},
                                        {"2", "", "cpus", "0-1", "why; not set: dry-run"}});
}

TEST_CASE("a task of an answer, with all its members") {
  Json json =
      Json::parse(R"({"rank": 3, "host": "n", "shell": 0, "pid": 7, "cpus": "0", "memory": "bind 0", "gpus": "",
    "nics": "", "why": {"cpus": "a", "memory": "b", "gpus": "", "nics": ""}, "cpus_now": "0", "unset": ""})");
  auto task = PlaceOfTask::parse(json);
  REQUIRE(task);
  CHECK(task->rank == 3);
  CHECK(task->parts[1] == PlaceOfTask::Part{"bind 0", "b"});
  json["why"].erase("nics");
  CHECK_FALSE(PlaceOfTask::parse(json));
}
