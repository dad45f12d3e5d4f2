// SPDX-License-Identifier: Apache-2.0
//
// The commands of tasks after a plugin has changed them.
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

// Four tasks, each with the command `run -x`, under the plugin that `make` makes, which reads the option `name`.
class CommandsOfTasks {
 public:
  CommandsOfTasks(plugins::PluginPtr (*make)(plugin::Host&), const char* name, const char* option) : name_(name) {
    host_.stack().push(make(host_));
    host_.make_tasks();
    host_.options().set(name, Json::parse(option));
    if (Result<int> called = host_.call("shell.init"); !called) error_ = called.error().message;
  }

  std::vector<std::string> of_task(std::size_t task) {
    REQUIRE(error_.empty());
    task::Command& command = host_.tasks()[task]->command();
    command.argv = {"run", "-x"};
    REQUIRE(host_.call_task("task.init", task));
    return command.argv;
  }

  [[nodiscard]] const task::Command& command(std::size_t task) { return host_.tasks()[task]->command(); }

  // The error of shell.init, without the plugin's name before it.
  [[nodiscard]] std::string error() const {
    std::string start = "plugin '" + name_ + "': shell.init: ";
    REQUIRE(error_.starts_with(start));
    return error_.substr(start.size());
  }

 private:
  std::string name_;
  kit::FakeHost host_{4};
  std::string error_;
};

using Arguments = std::vector<std::string>;

struct Programs : CommandsOfTasks {
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

namespace {

struct Wrapped : CommandsOfTasks {
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
