// SPDX-License-Identifier: Apache-2.0
#include "commands_of_tasks.hpp"

using namespace nacre;

namespace {

using Arguments = std::vector<std::string>;

struct Wrapped : kit::CommandsOfTasks {
  explicit Wrapped(const char* option) : CommandsOfTasks(plugins::make_wrap, "wrap", option) {}
};

}  // namespace

TEST_CASE("wrap puts a program before that of some tasks") {
  Wrapped wrapped(R"([{"ranks": "0,2-3", "command": ["perf", "record"]}])");
  CHECK(wrapped.of_task(0) == Arguments{"perf", "record", "run", "-x"});
  CHECK(wrapped.of_task(1) == Arguments{"run", "-x"});
  CHECK(wrapped.of_task(3) == Arguments{"perf", "record", "run", "-x"});
}

TEST_CASE("without ranks, or with all, every task is wrapped; one entry needs no array") {
  CHECK(Wrapped(R"({"command": ["time"]})").of_task(1) == Arguments{"time", "run", "-x"});
  CHECK(Wrapped(R"([{"ranks": "all", "command": ["time"]}])").of_task(2) == Arguments{"time", "run", "-x"});
}

TEST_CASE("of several entries for a task the first is the outermost") {
  Wrapped wrapped(R"([{"command": ["outer", "-o"]}, {"ranks": "1", "command": ["inner"]}])");
  CHECK(wrapped.of_task(1) == Arguments{"outer", "-o", "inner", "run", "-x"});
  CHECK(wrapped.of_task(0) == Arguments{"outer", "-o", "run", "-x"});
}

TEST_CASE("a wrapper that cannot be meant is an error that says where") {
  CHECK(Wrapped("1").error() == "wrap: expected an array, got 1");
  CHECK(Wrapped(R"([{"ranks": "0"}])").error().starts_with("wrap[0]"));
  CHECK(Wrapped(R"([{"command": []}])").error() ==
        "wrap[0].command: expected a program and its arguments, got an array");
  CHECK(Wrapped(R"([{"command": [""]}])").error().starts_with("wrap[0].command: expected a program"));
  CHECK(Wrapped(R"([{"command": ["a", 1]}])").error() == "wrap[0].command[1]: expected a string, got 1");
  CHECK(Wrapped(R"([{"command": ["a"], "ranks": "0-4"}])").error() == "wrap[0].ranks: the job has no task 4");
  CHECK(Wrapped(R"([{"command": ["a"], "ranks": ""}])").error().starts_with("wrap[0].ranks: expected an idset"));
  CHECK(Wrapped(R"([{"command": ["a"], "ranks": "0-"}])").error().starts_with("wrap[0].ranks: idset"));
  CHECK(Wrapped(R"([{"command": ["a"], "ranks": 0}])").error() == "wrap[0].ranks: expected a string, got 0");
  CHECK(Wrapped(R"([{"command": ["a"], "rank": "0"}])").error().starts_with("wrap[0]"));
}
