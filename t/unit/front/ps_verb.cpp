// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "front/ps_verb.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::front;  // NOLINT

namespace {

using Rows = std::vector<std::vector<std::string>>;

PsTask process(std::uint64_t spawn, std::uint32_t rank, const char* host) {
  PsTask out;
  out.spawn = spawn;
  out.rank = rank;
  out.host = host;
  out.pid = 100 + rank;
  out.state = "S";
  out.time = 5;
  out.cpu = 0.5;
  out.rss = 1024;
  out.command = "cc";
  return out;
}

}  // namespace

TEST_CASE("a row for each process: a spawned one by the number of its spawn, and without a try") {
  Rows rows = ps_rows({process(0, 1, "n0"), process(2, 1, "n1")}, false);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == std::vector<std::string>{"1", "n0", "101", "S", "1", "5.000s", "50.0", "1.0K", "cc"});
  CHECK(rows[1] == std::vector<std::string>{"2.1", "n1", "101", "S", "-", "5.000s", "50.0", "1.0K", "cc"});
}

TEST_CASE("folded: tasks are not with what they have spawned, nor one spawn with another") {
  Rows rows = ps_rows({process(0, 0, "n0"), process(0, 1, "n0"), process(0, 2, "n1"), process(1, 0, "n0"),
                       process(1, 1, "n0"), process(12, 0, "n0")},
                      true);
  REQUIRE(rows.size() == 4);
  auto begins = [&](std::size_t row, const std::vector<std::string>& cells) {
    return std::vector<std::string>(rows[row].begin(), rows[row].begin() + 5) == cells;
  };
  CHECK(begins(0, {"0-1", "n0", "(2)", "S", "1"}));
  CHECK(begins(1, {"2", "n1", "(1)", "S", "1"}));
  CHECK(begins(2, {"1.0-1", "n0", "(2)", "S", "-"}));
  CHECK(begins(3, {"12.0", "n0", "(1)", "S", "-"}));
}

TEST_CASE("a spawned process needs no try, a task does") {
  Json row{{"rank", 3}, {"host", "n0"}, {"shell", 0},  {"pid", 9},        {"state", "R"},
           {"time", 1}, {"cpu", 0},     {"rss", 4096}, {"command", "cc"}, {"task", 1}};
  CHECK_FALSE(PsTask::parse(row));
  row["spawn"] = 4;
  auto parsed = PsTask::parse(row);
  REQUIRE(parsed);
  CHECK(parsed->spawn == 4);
  CHECK(parsed->rank == 3);
  row["spawn"] = 0;
  CHECK_FALSE(PsTask::parse(row));
}

namespace {

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
