// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

using Arguments = std::vector<std::string>;

// Four tasks, each with the command `run`; shell.init with the option.
struct Wrapped {
  explicit Wrapped(const char* option) {
    host.stack().push(plugins::make_wrap(host));
    host.make_tasks();
    host.options().set("wrap", Json::parse(option));
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  Arguments of_task(std::size_t task) {
    REQUIRE(error.empty());
    task::Command& command = host.tasks()[task]->command();
    command.argv = {"run", "-x"};
    REQUIRE(host.call_task("task.init", task));
    return command.argv;
  }

  kit::FakeHost host{4};
  std::string error;
};

std::string error_of(const char* option) {
  std::string error = Wrapped(option).error;
  constexpr std::string_view kStart = "plugin 'wrap': shell.init: ";
  REQUIRE(error.starts_with(kStart));
  return error.substr(kStart.size());
}

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
  CHECK(error_of("1") == "wrap: expected an array, got 1");
  CHECK(error_of(R"([{"ranks": "0"}])").starts_with("wrap[0]"));
  CHECK(error_of(R"([{"command": []}])") == "wrap[0].command: expected a program and its arguments, got an array");
  CHECK(error_of(R"([{"command": [""]}])").starts_with("wrap[0].command: expected a program"));
  CHECK(error_of(R"([{"command": ["a", 1]}])") == "wrap[0].command[1]: expected a string, got 1");
  CHECK(error_of(R"([{"command": ["a"], "ranks": "0-4"}])") == "wrap[0].ranks: the job has no task 4");
  CHECK(error_of(R"([{"command": ["a"], "ranks": ""}])").starts_with("wrap[0].ranks: expected an idset"));
  CHECK(error_of(R"([{"command": ["a"], "ranks": "0-"}])").starts_with("wrap[0].ranks: idset"));
  CHECK(error_of(R"([{"command": ["a"], "ranks": 0}])") == "wrap[0].ranks: expected a string, got 0");
  CHECK(error_of(R"([{"command": ["a"], "rank": "0"}])").starts_with("wrap[0]"));
}
