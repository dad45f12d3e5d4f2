// SPDX-License-Identifier: Apache-2.0
//
// on-lost=replace: what the leader orders, and what becomes of it on each shell.
#include <catch2/catch.hpp>

#include "shell_under_test.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using exits::Record;
using value::Idset;
using value::WaitStatus;

namespace {

const char* const kMoved = R"({"from": 1, "to": 3, "ranks": "1", "try": 2})";
const Record kWell = Record::of(WaitStatus::exited(0));
const Record kBadly = Record::of(WaitStatus::exited(7));

group::Ended ended(const char* numbers, const Record& record) { return {Idset::parse(numbers).value(), record}; }

// Three shells with a task each, and a spare.
void prepare(ShellUnderTest& it, const char* on_lost) {
  it.options = {{"on-lost", on_lost}, {"spares", 1}, {"kill-timeout", "0.1s"}};
  it.at["job.tasks-moved"] = [](ShellUnderTest&) { return Result<void>(); };
  it.at["shell.resource-update"] = it.at["shell.take-over"] = it.at["job.tasks-moved"];
  it.group->others = ended("2", kWell);
}

std::string lost_line(const char* rest) {
  return fmt::format("shell 1 on node1 is lost: it has ended, or cannot be reached; {}", rest);
}

}  // namespace

TEST_CASE("the leader orders a spare, drops what comes of the first start, and counts the second") {
  ShellUnderTest it(0, 4);
  prepare(it, "replace");
  it.command = {"sleep", "0.2"};
  it.at["shell.start"] = [](ShellUnderTest& self) {
    self.later(event::Seconds(0.01), [&self] {
      self.group->lose(1);
      self.group->end_elsewhere(ended("1", kBadly));
      CHECK(self.shell->job().taskmap.raw() == "0;;2;1");
      CHECK(self.shell->job().attempt_of(1) == 2);
      CHECK_FALSE(self.shell->job().is_spare(3));
      self.group->end_elsewhere(ended("4", kWell));
    });
    return Result<void>();
  };
  CHECK(it.run() == 0);
  CHECK(it.group->count("announce shell.replace") == 1);
  CHECK(it.group->raised() == std::vector<std::string>{"raise node-failure 2 -1: " +
                                                       lost_line("its task 1 starts again on the spare shell 3 on "
                                                                 "node3")});
  CHECK(it.called("job.tasks-moved") == 1);
  CHECK(it.called("shell.resource-update") == 1);
  CHECK(it.called("shell.take-over") == 0);
}

TEST_CASE("a record that comes before the loss stands, and its task does not start again") {
  ShellUnderTest it(0, 4);
  prepare(it, "replace");
  it.command = {"sleep", "0.2"};
  it.at["shell.start"] = [](ShellUnderTest& self) {
    self.later(event::Seconds(0.01), [&self] {
      self.group->end_elsewhere(ended("1", kBadly));
      self.group->lose(1);
    });
    return Result<void>();
  };
  CHECK(it.run() == 7);
  CHECK(it.group->count("announce shell.replace") == 0);
  CHECK(it.group->raised().size() == 1);
  CHECK(it.group->raised()[0].find("raise node-failure 2") == 0);
}

TEST_CASE("without a spare the job ends, or goes on, and the line has the reason") {
  for (const char* on_lost : {"replace", "replace,else=go-on"}) {
    ShellUnderTest it(0, 4);
    prepare(it, on_lost);
    it.command = {"sleep", "0.2"};
    it.at["shell.start"] = [](ShellUnderTest& self) {
      self.later(event::Seconds(0.01), [&self] {
        self.group->lose(3);
        self.group->lose(1);
      });
      return Result<void>();
    };
    CHECK(it.run() == 1);
    CHECK(it.group->count("announce shell.replace") == 0);
    std::vector<std::string> raised = it.group->raised();
    REQUIRE(raised.size() == 2);
    int severity = std::string_view(on_lost) == "replace" ? 0 : 2;
    CHECK(raised[1] ==
          fmt::format(
              "raise node-failure {} -1: shell 1 on node1 is lost: it has ended, or cannot be reached; with it "
              "task 1, which is not started again: there is no spare left",
              severity));
  }
}

TEST_CASE("an order for a spare that was lost before it has no effect, on any shell") {
  ShellUnderTest it(2, 4);
  prepare(it, "replace");
  it.group->others.reset();
  it.group->decided = 0;
  it.command = {"sleep", "0.1"};
  it.at["shell.start"] = [](ShellUnderTest& self) {
    self.group->lose(1);
    self.group->lose(3);
    for (const char* order : {kMoved, R"({"from": 1, "to": 7, "ranks": "1", "try": 2})",
                              R"({"from": 1, "to": 3, "ranks": "1-9", "try": 2})", "[]"})
      CHECK(self.group->announce("shell.replace", order));
    return Result<void>();
  };
  it.at["shell.finish"] = [](ShellUnderTest& self) {
    CHECK(self.called("job.tasks-moved") == 0);
    CHECK(self.shell->job().taskmap.raw() == "0;1;2");
    CHECK(self.has_logged("on-lost: an announcement that this version does not understand") == 3);
    return Result<void>();
  };
  CHECK(it.run() == 0);
}

TEST_CASE("a spare starts the tasks that it is given, in their second start, once its plugins know them") {
  ShellUnderTest it(3, 4);
  prepare(it, "replace");
  it.group->others.reset();
  it.group->decided = 0;
  it.command = {"sh", "-c", "test $FLUX_TASK_RANK.$NACRE_TASK_TRY.$NACRE_JOB_RESTARTS = 1.2.1 && exit 5"};
  it.at["shell.start"] = [](ShellUnderTest& self) {
    self.later(event::Seconds(0.01), [&self] {
      self.group->lose(1);
      CHECK(self.group->announce("shell.replace", kMoved));
    });
    return Result<void>();
  };
  CHECK(it.run() == 0);
  CHECK(it.group->started.str() == "4");
  REQUIRE(it.group->ended.size() == 1);
  CHECK(it.group->ended[0].tasks.str() == "4");
  CHECK(it.group->ended[0].record == Record::of(WaitStatus::exited(5)));
  auto taken = std::find(it.topics.begin(), it.topics.end(), "shell.take-over");
  REQUIRE(taken != it.topics.end());
  CHECK(std::vector(taken, it.topics.end()) == std::vector<std::string>{"shell.take-over", "task.init", "task.fork",
                                                                        "task.exit", "shell.finish", "shell.exit"});
}
