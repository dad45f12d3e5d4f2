// SPDX-License-Identifier: Apache-2.0
#include "commands_of_tasks.hpp"

using namespace nacre;

namespace {

using Arguments = std::vector<std::string>;

struct Programs : kit::CommandsOfTasks {
  explicit Programs(const char* option) : CommandsOfTasks(plugins::make_multi_prog, "multi-prog", option) {}
};

}  // namespace

TEST_CASE("multi-prog gives each task its own program, and its numbers") {
  Programs programs(
      R"([{"ranks": "1,3", "command": ["a", "%t:%o", "50%%", "%x", "%"]}, {"command": ["b", "%o"]}])");
  CHECK(programs.of_task(0) == Arguments{"b", "0"});
  CHECK(programs.of_task(1) == Arguments{"a", "1:0", "50%", "%x", "%"});
  CHECK(programs.of_task(2) == Arguments{"b", "1"});
  CHECK(programs.of_task(3) == Arguments{"a", "3:1", "50%", "%x", "%"});
}

TEST_CASE("multi-prog gives each program its variables and its directory") {
  Programs programs(R"([{"ranks": "1", "command": ["a"], "environment": {"A": "1", "HOME": null}, "cwd": "/x"},
                        {"command": ["b"]}])");
  programs.of_task(0);
  programs.of_task(1);
  CHECK(programs.command(1).env.get("A") == "1");
  CHECK_FALSE(programs.command(1).env.get("HOME"));
  CHECK(programs.command(1).setup.cwd == "/x");
  CHECK_FALSE(programs.command(0).env.get("A"));
  CHECK_FALSE(programs.command(0).setup.cwd);
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
  CHECK(Programs(R"([{"ranks": "0-4", "command": ["a"]}])").error() == "multi-prog[0]: the job has no task 4");
  CHECK(Programs(R"([{"ranks": "0-2", "command": ["a"]}])").error() ==
        "multi-prog: no program for task 3: name it in one, or add one without ranks");
  CHECK(Programs(R"([{"ranks": "0-2", "command": ["a"]}, {"ranks": "2-3", "command": ["b"]}])").error() ==
        "multi-prog[1]: task 2 has a program already");
  CHECK(Programs(R"([{"command": ["a"]}, {"command": ["b"]}])").error() ==
        "multi-prog[1]: a second entry without ranks");
  CHECK(Programs(R"([{"command": []}])").error().starts_with("multi-prog[0].command: expected a program"));
  CHECK(Programs(R"([{"rank": "0", "command": ["a"]}])").error().starts_with("multi-prog[0]"));
  CHECK(Programs(R"([{"command": ["a"], "environment": {"A=": "1"}}])")
            .error()
            .starts_with("multi-prog[0].environment: expected a variable's name"));
  CHECK(Programs(R"([{"command": ["a"], "environment": {"A": 1}}])")
            .error()
            .starts_with("multi-prog[0].environment.A"));
  CHECK(Programs(R"([{"command": ["a"], "cwd": ""}])").error() ==
        "multi-prog[0].cwd: expected a directory, got \"\"");
}
