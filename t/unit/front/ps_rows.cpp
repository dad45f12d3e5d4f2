// SPDX-License-Identifier: Apache-2.0
#include "front/ps_verb.hpp"

#include "catch.hpp"

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
