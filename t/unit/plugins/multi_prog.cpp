// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

using Arguments = std::vector<std::string>;

// Four tasks, each with the command `run`; shell.init with the option.
struct Programs {
  explicit Programs(const char* option) {
    host.stack().push(plugins::make_multi_prog(host));
    host.make_tasks();
    host.options().set("multi-prog", Json::parse(option));
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

std::string error_of_programs(const char* option) {
  std::string error = Programs(option).error;
  constexpr std::string_view kStart = "plugin 'multi-prog': shell.init: ";
  REQUIRE(error.starts_with(kStart));
  return error.substr(kStart.size());
}

}  // namespace

TEST_CASE("multi-prog gives each task its own program, and its numbers") {
  Programs programs(
      R"([{"ranks": "1,3", "command": ["a", "%t:%o", "50%%", "%x", "%"]}, {"command": ["b", "%o"]}])");
  CHECK(programs.of_task(0) == Arguments{"b", "0"});
  CHECK(programs.of_task(1) == Arguments{"a", "1:0", "50%", "%x", "%"});
  CHECK(programs.of_task(2) == Arguments{"b", "1"});
  CHECK(programs.of_task(3) == Arguments{"a", "3:1", "50%", "%x", "%"});
}

TEST_CASE("without multi-prog a task keeps its command") {
  kit::FakeHost host{1};
  host.stack().push(plugins::make_multi_prog(host));
  host.make_tasks();
  REQUIRE(host.call("shell.init"));
  host.tasks()[0]->command().argv = {"run"};
  REQUIRE(host.call_task("task.init", 0));
  CHECK(host.tasks()[0]->command().argv == Arguments{"run"});
}

TEST_CASE("each task has to have one program of multi-prog") {
  CHECK(error_of_programs(R"([{"ranks": "0-4", "command": ["a"]}])") == "multi-prog[0]: the job has no task 4");
  CHECK(error_of_programs(R"([{"ranks": "0-2", "command": ["a"]}])") ==
        "multi-prog: no program for task 3: name it in one, or add one without ranks");
  CHECK(error_of_programs(R"([{"ranks": "0-2", "command": ["a"]}, {"ranks": "2-3", "command": ["b"]}])") ==
        "multi-prog[1]: task 2 has a program already");
  CHECK(error_of_programs(R"([{"command": ["a"]}, {"command": ["b"]}])") ==
        "multi-prog[1]: a second entry without ranks");
  CHECK(error_of_programs(R"([{"command": []}])").starts_with("multi-prog[0].command: expected a program"));
  CHECK(error_of_programs(R"([{"rank": "0", "command": ["a"]}])").starts_with("multi-prog[0]"));
}
