// SPDX-License-Identifier: Apache-2.0
//
// The phases of a Shell: in which order a job's topics are called, and what each phase does when it fails.

#include "shell_under_test.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

using Topics = std::vector<std::string>;

// How a plugin fails in a topic, and the job's exit code then.
struct Way {
  const char* name;
  ShellUnderTest::Do fail;
  int code;
  const char* message;  // to the other shells; {0}: the topic, {1}: the shell
};

std::vector<Way> ways() {
  auto raise = [](std::optional<value::WaitStatus> status) {
    return [status](ShellUnderTest& it) -> Result<void> {
      it.shell->host().raise({"exec", 0, "it was raised", status});
      return {};
    };
  };
  return {{"returns an error", [](ShellUnderTest&) -> Result<void> { return invalid("it failed"); }, 1,
           "plugin 'test': {0}: it failed"},
          {"raises", raise(std::nullopt), 1, "it was raised (plugin 'test', {0}, on node{1})"},
          {"raises with a status", raise(value::WaitStatus::exited(5)), 5,
           "it was raised (plugin 'test', {0}, on node{1})"},
          {"dies",
           [](ShellUnderTest& it) -> Result<void> {
             it.shell->host().die(9, "test", "it died");
             return {};
           },
           9, "test: it died ({0}, on node{1})"}};
}

// The topics that each shell calls once, in their order; the last one always.
const Topics kPhases{"shell.init",  "shell.post-init", "task.init",    "task.fork",
                     "shell.start", "task.exit",       "shell.finish", "shell.exit"};

bool comes_after(const std::string& topic, const std::string& other) {
  return std::find(kPhases.begin(), kPhases.end(), topic) > std::find(kPhases.begin(), kPhases.end(), other);
}

// Tasks that run until they are killed, unless the failure comes after the tasks' ends.
std::vector<std::string> command_for(const std::string& topic) {
  bool ends_by_itself = !comes_after("task.exit", topic);
  return ends_by_itself ? std::vector<std::string>{"true"} : std::vector<std::string>{"sleep", "1000"};
}

}  // namespace

TEST_CASE("a job of one shell calls its topics in order") {
  ShellUnderTest it;
  CHECK(it.run() == 0);
  CHECK(it.topics == Topics{"shell.init", "shell.post-init", "task.init", "task.fork", "shell.start", "task.exit",
                            "shell.finish", "shell.tasks-complete", "shell.exit"});
  CHECK(it.logged.empty());
  CHECK(!it.process.end.is_ending());
}

TEST_CASE("one shell of three calls its topics in order, between the barriers") {
  group::Rank rank = GENERATE(0, 1);
  ShellUnderTest it(rank, 3);
  it.tasks = 2;
  it.command = {"sleep", "0.5"};  // both start before one ends
  it.group->decided = 0;
  CHECK(it.run() == 0);
  Topics expected{"shell.init",  "shell.post-init", "task.init", "task.fork",    "task.init", "task.fork",
                  "shell.start", "task.exit",       "task.exit", "shell.finish", "shell.exit"};
  if (rank == 0) expected.insert(expected.end() - 1, "shell.tasks-complete");
  CHECK(it.topics == expected);
  CHECK(it.group->acts == Topics{"gather init", "enter start", "close bulk", "enter exit", "enter end", "leave 0"});
  CHECK(it.group->started == value::Idset::range(2 * rank, 2 * rank + 1));
  CHECK(it.group->ended.size() == 2);
  CHECK(it.logged.empty());
}

TEST_CASE("where a plugin of one shell wants that, no task starts before all shells are ready to") {
  ShellUnderTest it(1, 3);
  it.command = {"sleep", "1000"};
  it.at["shell.init"] = [](ShellUnderTest& shell) -> Result<void> {
    shell.shell->host().start_after_all();
    return {};
  };
  it.group->never_entered = {"ready"};  // by another shell, which fails
  it.group->at_barrier["ready"] = [&it] {
    CHECK(it.called("shell.post-init") == 1);
    CHECK(it.called("task.init") == 0);
    it.raise_elsewhere(3);
  };
  it.group->decided = 3;
  CHECK(it.run() == 3);
  CHECK(it.group->started.empty());
  CHECK(it.called("task.init") == 0);
  CHECK(it.group->acts == Topics{"gather init", "enter ready", "close bulk", "enter exit", "enter end", "leave 3"});
}

TEST_CASE("a job of one shell has nobody to wait for before its tasks start") {
  ShellUnderTest it;
  it.at["shell.init"] = [](ShellUnderTest& shell) -> Result<void> {
    shell.shell->host().start_after_all();
    return {};
  };
  CHECK(it.run() == 0);
  CHECK(!it.shell);
}

TEST_CASE("a failure in any phase ends a job of one shell with its code") {
  for (const std::string& topic : kPhases) {
    for (const Way& way : ways()) {
      INFO("in " << topic << " it " << way.name);
      ShellUnderTest it;
      it.command = command_for(topic);
      it.at[topic] = way.fail;
      CHECK(it.run() == way.code);
      CHECK(it.process.end.is_ending());
      CHECK(it.called(topic) == 1);
      CHECK(it.called("shell.exit") == 1);
      CHECK(it.topics.back() == "shell.exit");
      bool has_started = comes_after(topic, "task.init");
      CHECK(it.called("task.exit") == has_started);
      CHECK(it.called("shell.start") == comes_after(topic, "task.fork"));
      // Once, in the log or as the error.
      CHECK(it.has_logged("it ") + it.error.has_value() == 1);
    }
  }
}

TEST_CASE("a failure in any phase of one shell of three is sent to the others, once") {
  group::Rank rank = GENERATE(0, 1);
  for (const std::string& topic : kPhases) {
    for (const Way& way : ways()) {
      INFO("in " << topic << " of shell " << rank << " it " << way.name);
      ShellUnderTest it(rank, 3);
      it.command = command_for(topic);
      it.at[topic] = way.fail;
      if (rank != 0) it.group->decided = way.code;
      CHECK(it.run() == way.code);
      REQUIRE(it.group->raised().size() == 1);
      std::string raised = it.group->raised()[0];
      CHECK_THAT(raised, Catch::Matchers::ContainsSubstring(fmt::format(fmt::runtime(way.message), topic, rank)));
      CHECK_THAT(raised, Catch::Matchers::ContainsSubstring(fmt::format("on node{}", rank)));
      REQUIRE(it.cause());
      CHECK(it.cause()->shell == rank);
      CHECK(it.called("shell.exit") == 1);
      CHECK(it.group->count("enter exit") == 1);
      CHECK(it.group->count("enter end") == 1);
      CHECK(it.group->count("leave") == 1);
      CHECK(it.group->acts.back() == fmt::format("leave {}", way.code));
      CHECK(!it.error);
      CHECK(it.has_logged("it ") == (rank == 0));
    }
  }
}
