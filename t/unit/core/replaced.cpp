// SPDX-License-Identifier: Apache-2.0
//
// on-lost=replace: what the leader orders, and what each shell does then.

#include "shell_under_test.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using exits::Record;
using value::Idset;
using value::WaitStatus;

namespace {

const char* const kMoved = R"({"from": 1, "moves": [{"to": 3, "ranks": "1", "try": 2}]})";
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
  it.after("shell.start", 0.01, [](ShellUnderTest& self) {
    self.group->lose(1);
    self.group->end_elsewhere(ended("1", kBadly));
    CHECK(self.shell->host().job().taskmap.raw() == "0;;2;1");
    CHECK(self.shell->host().job().attempt_of(1) == 2);
    CHECK_FALSE(self.shell->host().job().is_spare(3));
    self.group->end_elsewhere(ended("4", kWell));
  });
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
  it.after("shell.start", 0.01, [](ShellUnderTest& self) {
    self.group->end_elsewhere(ended("1", kBadly));
    self.group->lose(1);
  });
  CHECK(it.run() == 7);
  CHECK(it.group->count("announce shell.replace") == 0);
  CHECK(it.group->raised().size() == 1);
  CHECK(it.group->raised()[0].find("raise node-failure 2") == 0);
}

TEST_CASE("without a spare the job ends, or goes on, and the line has the reason") {
  for (const char* on_lost : {"replace", "replace,else=go-on"}) {
    ShellUnderTest it(0, 4);
    prepare(it, on_lost);
    it.at["shell.not-replaced"] = it.at["job.tasks-moved"];
    it.command = {"sleep", "0.2"};
    it.after("shell.start", 0.01, [](ShellUnderTest& self) {
      self.group->lose(3);
      self.group->lose(1);
    });
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
    CHECK(it.called("shell.not-replaced") == (severity == 0 ? 1 : 2));  // also for the loss of the spare
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
    for (const char* order :
         {kMoved, R"({"from": 1, "moves": [{"to": 7, "ranks": "1", "try": 2}]})", R"({"from": 1, "moves": []})",
          R"({"from": 1, "moves": [{"to": 3, "ranks": "1-9", "try": 2}]})",
          R"({"from": 1, "moves": [{"to": 3, "ranks": "1", "try": 0}]})", "[]"})
      CHECK(self.group->announce("shell.replace", order));
    return Result<void>();
  };
  it.at["shell.finish"] = [](ShellUnderTest& self) {
    CHECK(self.called("job.tasks-moved") == 0);
    CHECK(self.shell->host().job().taskmap.raw() == "0;1;2");
    CHECK(self.has_logged("on-lost: an announcement that this version does not understand") == 5);
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
  it.after("shell.start", 0.01, [](ShellUnderTest& self) {
    self.group->lose(1);
    CHECK(self.group->announce("shell.replace", kMoved));
  });
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

namespace {

// Four shells with two tasks each, and no spare; each node has two cores.
void prepare_any(ShellUnderTest& it) {
  prepare(it, "replace");
  it.options.erase("spares");
  it.options["restart"] = "on-failure,where=any";
  it.options["oversubscribe"] = true;
  it.tasks = 2;
  it.group->others = ended("4-7", kWell);
}

}  // namespace

TEST_CASE("where=any: without a spare the tasks go to the shells with the fewest, each in its next start") {
  ShellUnderTest it(0, 4);
  prepare_any(it);
  it.command = {"sleep", "0.3"};
  it.after("shell.start", 0.05, [](ShellUnderTest& self) {
    REQUIRE(self.group->announce("shell.restart-asked",
                                 R"({"shell": 1, "whole": false, "ends": [[2, 1, "x3", 0.5]]})"));
    self.group->lose(1);
    CHECK(self.shell->host().job().taskmap.raw() == "0-1;;2,4-5;3,6-7");
    CHECK(self.shell->host().job().attempt_of(2) == 3);
    CHECK(self.shell->host().job().attempt_of(3) == 2);
    CHECK(self.shell->host().job().restarts == 2);
    CHECK(self.shell->host().job().stands_for(3) == 3);
    self.group->end_elsewhere(ended("3,10", kBadly));  // these ends are of earlier starts
    self.group->end_elsewhere(ended("11,18", kWell));
  });
  CHECK(it.run() == 0);
  CHECK(it.group->raised().back() ==
        "raise node-failure 2 -1: " +
            lost_line("its task 2 starts again on shell 2 on node2, task 3 starts again on shell 3 on node3"));
  CHECK(it.called("job.tasks-moved") == 2);
  CHECK(it.called("shell.resource-update") == 1);
}

TEST_CASE("where=any: the leader takes tasks itself, and has not finished before all have ended") {
  ShellUnderTest it(0, 2);
  prepare_any(it);
  it.tasks = 1;
  it.group->others = group::Ended{Idset(), kWell};
  it.command = {"sh", "-c", "test $FLUX_TASK_RANK = 0 || test $NACRE_TASK_TRY.$NACRE_JOB_RESTARTS = 2.1"};
  it.at["task.exit"] = [](ShellUnderTest& self) {
    if (self.called("task.exit") == 1) self.later(event::Seconds(0.05), [&self] { self.group->lose(1); });
    return Result<void>();
  };
  CHECK(it.run() == 0);
  CHECK(it.group->raised() == std::vector<std::string>{"raise node-failure 2 -1: " +
                                                       lost_line("its task 1 starts again on shell 0 on node0")});
  auto taken = std::find(it.topics.begin(), it.topics.end(), "shell.take-over");
  CHECK(std::vector(taken, it.topics.end()) == std::vector<std::string>{"shell.take-over", "task.init", "task.fork",
                                                                        "task.exit", "shell.finish",
                                                                        "shell.tasks-complete", "shell.exit"});
  CHECK(it.group->count("announce shell.tasks-over") == 1);
}

TEST_CASE("where=any: a shell whose tasks run starts those that come, and stands by until all have ended") {
  ShellUnderTest it(2, 3);
  prepare_any(it);
  it.tasks = 1;
  it.group->others.reset();
  it.group->decided = 0;
  it.options["restart"] = "on-request,where=any";
  it.command = {"sh", "-c", "[ $FLUX_TASK_RANK = 2 ] && exec sleep 0.3; exit 5"};
  it.after("shell.start", 0.05, [](ShellUnderTest& self) {
    self.group->lose(1);
    CHECK(self.group->announce("shell.replace", R"({"from": 1, "moves": [{"to": 2, "ranks": "1", "try": 2}]})"));
  });
  it.after("shell.start", 0.6, [](ShellUnderTest& self) {
    CHECK(self.called("task.exit") == 2);
    CHECK(self.called("shell.finish") == 0);
    CHECK(self.group->announce("shell.tasks-over", ""));
  });
  CHECK(it.run() == 0);
  CHECK(it.group->started.str() == "2,4");
}

TEST_CASE("where=any needs on-lost=replace, and room") {
  ShellUnderTest it(0, 3);
  prepare_any(it);
  it.options["on-lost"] = "go-on";
  CHECK(it.run() == 1);
  CHECK(it.group->raised()[0].find("where=any is for the tasks of a lost shell, which start again with "
                                   "on-lost=replace only: give that, too") != std::string::npos);
  ShellUnderTest full(0, 2);
  prepare_any(full);
  full.options.erase("oversubscribe");
  full.group->others = group::Ended{Idset(), kWell};
  full.command = {"sleep", "5"};
  full.after("shell.start", 0.01, [](ShellUnderTest& self) { self.group->lose(1); });
  CHECK(full.run() == 1);
  CHECK(
      full.group->raised().back().find("with it task 2-3, which are not started again: there is no spare left, and "
                                       "the other shells have room for 0 of 2 tasks") != std::string::npos);
}
