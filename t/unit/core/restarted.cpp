// SPDX-License-Identifier: Apache-2.0
//
// The option restart: what a shell keeps back, asks for, and does once the log has decided.

#include "folder.hpp"
#include "shell_under_test.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using exits::Record;
using value::Idset;
using value::WaitStatus;

namespace {

const char* const kFailsOnce = "[ $NACRE_TASK_TRY -gt 1 ] || exit 3";

void prepare(ShellUnderTest& it, const char* restart, const char* script) {
  it.options = {{"restart", restart}, {"kill-timeout", "0.1s"}};
  it.command = {"sh", "-c", script};
  for (const char* topic : {"job.tasks-exited", "job.tasks-restart", "shell.restart"})
    it.at[topic] = [](ShellUnderTest&) { return Result<void>(); };
}

// The request for a failed task of shell 1.
std::string asked(const char* ends, bool whole = false) {
  return fmt::format(R"({{"shell": 1, "whole": {}, "ends": {}}})", whole, ends);
}

}  // namespace

TEST_CASE("a task that fails is started again, and only its last end is one") {
  ShellUnderTest it;
  prepare(it, "on-failure,backoff=0", kFailsOnce);
  CHECK(it.run() == 0);
  CHECK(it.called("task.fork") == 2);
  CHECK(it.called("task.exit") == 2);
  CHECK(it.called("job.tasks-exited") == 1);
  CHECK(it.called("job.tasks-restart") == 1);
  CHECK(it.has_logged("warn: restart: rank 0 exited with code 3: try 2 of it starts now (restart 1 of 3)") == 1);
  auto again = std::find(it.topics.begin(), it.topics.end(), "shell.restart");
  CHECK(std::vector(again, it.topics.end()) ==
        std::vector<std::string>{"shell.restart", "task.init", "task.fork", "task.exit", "job.tasks-exited",
                                 "shell.finish", "shell.tasks-complete", "shell.exit"});
}

TEST_CASE("without the option, and once there is no restart left, an end is an end") {
  ShellUnderTest it;
  prepare(it, "never", "exit 3");
  CHECK(it.run() == 3);
  CHECK(it.called("task.exit") == 1);
  ShellUnderTest used;
  prepare(used, "on-failure,backoff=0,max=2", "exit 3");
  CHECK(used.run() == 3);
  CHECK(used.called("task.fork") == 3);
  CHECK(used.called("job.tasks-exited") == 1);
  CHECK(used.has_logged("rank 0 exited with code 3, and is not started again: the job has used 2 of 2 restarts") ==
        1);
}

TEST_CASE("a job that ends while a task waits for its restart has the task's last end") {
  ShellUnderTest it;
  prepare(it, "on-failure,backoff=1h:1h", "exit 3");
  it.after("job.tasks-restart", 0.01, [](ShellUnderTest& self) {
    self.shell->host().raise({"exec", 0, "enough", WaitStatus::exited(9)});
  });
  CHECK(it.run() == 9);
  CHECK(it.called("task.fork") == 1);
  CHECK(it.called("job.tasks-exited") == 1);
}

TEST_CASE("a signal that asks the tasks to end cancels a restart that waits, and prevents others") {
  ShellUnderTest waits;
  prepare(waits, "on-failure,backoff=1h:1h", "exit 3");
  waits.after("job.tasks-restart", 0.01, [](ShellUnderTest& self) { self.shell->host().kill_tasks(SIGTERM); });
  CHECK(waits.run() == 3);
  ShellUnderTest runs;
  prepare(runs, "always,backoff=0", "trap 'exit 5' TERM; while :; do sleep 0.01; done");
  runs.at["shell.start"] = [](ShellUnderTest& self) {
    self.once_task_expects(SIGTERM, [&self] { self.shell->host().kill_tasks(SIGTERM); });
    return Result<void>();
  };
  CHECK(runs.run() == 5);
  CHECK(runs.called("task.fork") == 1);
}

TEST_CASE(
    "the leader counts the restart of another shell's task, and drops what its earlier start has ended with") {
  ShellUnderTest it(0, 2);
  prepare(it, "on-failure,max=1", "sleep 0.2");
  it.group->others = group::Ended{Idset(), Record::of(WaitStatus::exited(0))};
  it.after("shell.start", 0.01, [](ShellUnderTest& self) {
    auto announce = [&](const char* ends) { REQUIRE(self.group->announce("shell.restart-asked", asked(ends))); };
    announce(R"([[1, 1, "x3", 0.5]])");
    CHECK(self.shell->host().job().attempt_of(1) == 2);
    announce(R"([[1, 1, "x3", 0.5]])");  // that start does not count any more
    announce(R"([[0, 1, "x3", 0.5]])");  // the task is not this shell's
    announce(R"([[9, 1, "x3", 0.5]])");
    announce("[]");
    announce(R"([[1, 1, "l", 0.5]])");
    CHECK(self.shell->host().job().restarts == 1);
    self.group->end_elsewhere({Idset::range(1, 1), Record::of(WaitStatus::exited(3))});
    announce(R"([[1, 2, "x4", 0.5]])");
    CHECK(self.shell->host().job().attempt_of(1) == 2);
    self.group->end_elsewhere({Idset::range(3, 3), Record::of(WaitStatus::exited(4))});
  });
  CHECK(it.run() == 4);
  CHECK(
      it.group->raised() ==
      std::vector<std::string>{
          "raise restart 2 -1: rank 1 on node1 exited with code 3: try 2 of it starts in 1s (restart 1 of 1)",
          "raise restart 2 -1: rank 1 on node1 exited with code 4, and is not started again: the job has used 1 of "
          "1 restarts"});
  CHECK(it.has_logged("restart: an announcement that this version does not understand") == 2);
}

TEST_CASE("all tasks start again together: this shell ends its own, and waits for the others") {
  ShellUnderTest it(0, 2);
  prepare(it, "on-failure,scope=job,backoff=0", "[ $NACRE_TASK_TRY -gt 1 ] || exec sleep 100");
  it.group->others = group::Ended{Idset(), Record::of(WaitStatus::exited(0))};
  it.after("shell.start", 0.05, [](ShellUnderTest& self) {
    REQUIRE(self.group->announce("shell.restart-asked", asked(R"([[1, 1, "x3", 0.5]])", true)));
    CHECK(self.shell->host().job().attempt_of(0) == 2);
    CHECK(self.shell->host().job().attempt_of(1) == 2);
    CHECK(self.shell->host().job().restarts == 1);
  });
  it.after("shell.start", 0.2, [](ShellUnderTest& self) {
    self.group->end_elsewhere({Idset::range(3, 3), Record::of(WaitStatus::exited(0))});
  });
  CHECK(it.run() == 0);
  CHECK(it.group->count("gather restart.1") == 1);
  CHECK(it.called("task.fork") == 2);
  CHECK(it.called("job.tasks-exited") == 2);
  CHECK(it.group->raised() ==
        std::vector<std::string>{"raise restart 2 -1: rank 1 on node1 exited with code 3: all "
                                 "tasks of the job start again now (restart 1 of 3)"});
}

TEST_CASE("not all tasks start again once one has ended for good") {
  ShellUnderTest it(0, 2);
  prepare(it, "on-failure,scope=job", "sleep 0.2");
  it.tasks = 1;
  it.group->others = group::Ended{Idset(), Record::of(WaitStatus::exited(0))};
  it.after("task.exit", 0.05, [](ShellUnderTest& self) {
    REQUIRE(self.group->announce("shell.restart-asked", asked(R"([[1, 1, "x3", 0.5]])", true)));
    self.group->end_elsewhere({Idset::range(1, 1), Record::of(WaitStatus::exited(3))});
  });
  CHECK(it.run() == 3);
  CHECK(it.group->count("gather restart") == 0);
  REQUIRE(it.group->raised().size() == 1);
  CHECK(it.group->raised()[0].find(
            "is not started again: all tasks would have to start again, and task 0 has ended for "
            "good") != std::string::npos);
}

TEST_CASE("a shell whose tasks have ended when all are to start again ends the job as the task that failed") {
  ShellUnderTest it(1, 2);
  prepare(it, "on-failure,scope=job", "exit 0");
  it.group->others = group::Ended{Idset(), Record::of(WaitStatus::exited(0))};
  it.at["shell.finish"] = [](ShellUnderTest& self) {
    REQUIRE(self.group->announce("shell.restart-answered",
                                 R"({"shell": 0, "whole": true, "ends": [[0, 1, "s9", 0.5]], "why": ""})"));
    self.shell->host().loop().poll();
    return Result<void>();
  };
  it.run();
  REQUIRE(!it.group->raised().empty());
  REQUIRE(it.cause());
  CHECK(it.cause()->task == exits::TaskEnd{0, Record::of(WaitStatus::killed(SIGKILL))});
  CHECK(it.group->raised().back().find(
            "its tasks had ended when all were to start again, as rank 0 killed by SIGKILL") != std::string::npos);
}

TEST_CASE("ends of two shells that come together: the one that others only follow from is granted, and named") {
  ShellUnderTest it(0, 2);
  prepare(it, "on-failure,scope=job,backoff=0", "[ $NACRE_TASK_TRY -gt 1 ] || exec sleep 100");
  it.group->others = group::Ended{Idset(), Record::of(WaitStatus::exited(0))};
  it.after("shell.start", 0.05, [](ShellUnderTest& self) {
    REQUIRE(self.group->announce("shell.restart-asked",
                                 R"({"shell": 1, "whole": true, "ends": [[1, 1, "x1", 0.5]], "origin": "peer"})"));
    CHECK(self.shell->host().job().attempt_of(1) == 1);
  });
  it.after("shell.start", 0.08, [](ShellUnderTest& self) {
    REQUIRE(self.group->announce("shell.restart-asked",
                                 R"({"shell": 1, "whole": true, "ends": [[1, 1, "s11", 0.5]], "origin": "own"})"));
  });
  it.after("shell.start", 0.5, [](ShellUnderTest& self) {
    CHECK(self.shell->host().job().restarts == 1);
    self.group->end_elsewhere({Idset::range(3, 3), Record::of(WaitStatus::exited(0))});
  });
  CHECK(it.run() == 0);
  REQUIRE(it.group->raised().size() == 1);
  CHECK(it.group->raised()[0].find("rank 1 on node1 killed by SIGSEGV: all tasks of the job start again now") !=
        std::string::npos);
}

TEST_CASE("scope=node: the other tasks of the shell end, and all start again together, with one restart") {
  ShellUnderTest it;
  prepare(
      it, "on-failure,scope=node,backoff=0,max=1",
      "[ $NACRE_TASK_TRY.$NACRE_JOB_RESTARTS = 2.1 ] || { [ $FLUX_TASK_RANK = 1 ] && exit 3; exec sleep 100; }");
  it.tasks = 3;
  CHECK(it.run() == 0);
  CHECK(it.called("task.fork") == 6);
  CHECK(it.called("task.exit") == 6);
  CHECK(it.called("job.tasks-restart") == 1);
  CHECK(it.called("shell.restart") == 1);
  CHECK(it.called("job.tasks-exited") == 3);
  CHECK(it.has_logged("warn: restart: rank 1 exited with code 3: all tasks of shell 0 (rank 0-2) start again now "
                      "(restart 1 of 1)") == 1);
}

TEST_CASE(
    "scope=node: it is another shell's, and the tasks of this one go on; the next starts of all of it count") {
  ShellUnderTest it(0, 2);
  prepare(it, "on-failure,scope=node,max=1", "sleep 0.2");
  it.tasks = 2;
  it.group->others = group::Ended{Idset(), Record::of(WaitStatus::exited(0))};
  it.after("shell.start", 0.01, [](ShellUnderTest& self) {
    REQUIRE(self.group->announce("shell.restart-asked", asked(R"([[2, 1, "x3", 0.5]])")));
    for (Idset::Id rank : {0, 1, 2, 3}) CHECK(self.shell->host().job().attempt_of(rank) == (rank < 2 ? 1 : 2));
    // the task starts again
    REQUIRE(self.group->announce("shell.restart-asked", asked(R"([[3, 1, "x3", 0.5]])")));
    CHECK(self.shell->host().job().restarts == 1);
    self.group->end_elsewhere({Idset::range(2, 3), Record::of(WaitStatus::exited(3))});
    self.group->end_elsewhere({Idset::range(6, 7), Record::of(WaitStatus::exited(0))});
  });
  CHECK(it.run() == 0);
  CHECK(it.called("task.fork") == 2);
  CHECK(it.called("shell.restart") == 0);
  CHECK(it.group->raised() ==
        std::vector<std::string>{"raise restart 2 -1: rank 2 on node1 exited with code 3: all tasks of shell 1 "
                                 "(rank 2-3) start again in 1s (restart 1 of 1)"});
}

TEST_CASE("scope=node: ends that were kept back with one that is refused are ends") {
  ShellUnderTest it;
  prepare(it, "on-failure,scope=node,backoff=0,max=1", "exit 3");
  it.tasks = 3;
  it.options["exit-on-error"] = "off";
  CHECK(it.run() == 3);
  CHECK(it.called("task.fork") == 6);
  CHECK(it.has_logged("is not started again: the job has used 1 of 1 restarts") == 1);
}

TEST_CASE("scope=node: a task of the shell has ended for good") {
  ShellUnderTest it;
  prepare(it, "on-failure,scope=node", "[ $FLUX_TASK_RANK = 0 ] || { sleep 0.3; exit 4; }");
  it.tasks = 2;
  CHECK(it.run() == 4);
  CHECK(it.called("task.fork") == 2);
  CHECK(it.has_logged("rank 1 exited with code 4, and is not started again: all tasks of its shell would have to "
                      "start again, and task 0 has ended for good") == 1);
}

TEST_CASE("scope=node: a signal for a task of the shell cancels it, while it waits and while the others end") {
  ShellUnderTest waits;
  prepare(waits, "on-failure,scope=node,backoff=1h:1h", "[ $FLUX_TASK_RANK = 0 ] || exit 3; sleep 100");
  waits.tasks = 2;
  waits.after("job.tasks-restart", 0.2,
              [](ShellUnderTest& self) { self.shell->host().signal_tasks(SIGTERM, Idset::range(0, 0)); });
  CHECK(waits.run() == 3);
  CHECK(waits.called("task.fork") == 2);
  ShellUnderTest ends;
  TemporaryFolder folder;
  std::string ready = folder.path("ready");  // task 0 ignores SIGTERM
  prepare(ends, "on-failure,scope=node,backoff=0",
          fmt::format("[ $FLUX_TASK_RANK = 0 ] || {{ until [ -e {0} ]; do sleep 0.01; done; exit 3; }}; "
                      "trap '' TERM; : > {0}; sleep 100",
                      ready)
              .c_str());
  ends.options["kill-timeout"] = "0.5s";
  ends.tasks = 2;
  ends.after("job.tasks-restart", 0.1,
             [](ShellUnderTest& self) { self.shell->host().signal_tasks(SIGTERM, Idset::range(0, 0)); });
  CHECK(ends.run() == 137);
  CHECK(ends.called("task.fork") == 2);
}

TEST_CASE("nacre restart: a task that is ordered to starts again, whatever it ends with, and uses no restart") {
  ShellUnderTest it(0, 2);
  prepare(it, "on-request", "[ $NACRE_TASK_TRY -gt 1 ] || { trap 'exit 7' TERM; sleep 100 & wait; }");
  it.group->others = group::Ended{Idset(), Record::of(WaitStatus::exited(0))};
  it.at["shell.start"] = [](ShellUnderTest& self) {
    self.once_task_expects(SIGTERM, [&self] {
      REQUIRE(self.group->announce("shell.restart-order", R"({"ranks": "0"})"));
      REQUIRE(self.group->announce("shell.restart-order", R"({"ranks": "0-1"})"));  // the task is being ended
      REQUIRE(self.group->announce("shell.restart-order", R"({"ranks": 0})"));
      REQUIRE(self.group->announce(
          "shell.restart-asked", R"({"shell": 1, "whole": false, "ordered": true, "ends": [[1, 1, "c/s15", 5]]})"));
      CHECK(self.shell->host().job().attempt_of(1) == 2);
      self.group->end_elsewhere({Idset::range(3, 3), Record::of(WaitStatus::exited(0))});
    });
    return Result<void>();
  };
  CHECK(it.run() == 0);
  CHECK(it.called("task.fork") == 2);
  CHECK(it.has_logged("restart: an order that this version does not understand") == 1);
  auto raised = it.group->raised();
  CHECK(raised ==
        std::vector<std::string>{
            "raise restart 2 -1: rank 1 on node1 is started again: try 2 starts now, as nacre restart has asked",
            "raise restart 2 -1: rank 0 on node0 is started again: try 2 starts now, as nacre restart has asked"});
}

TEST_CASE("nacre restart: all tasks, and an answer that has become old is given anew") {
  ShellUnderTest it(0, 2);
  prepare(it, "on-request", "[ $NACRE_TASK_TRY -gt 1 ] || exec sleep 100");
  it.group->others = group::Ended{Idset(), Record::of(WaitStatus::exited(0))};
  it.after("shell.start", 0.1, [](ShellUnderTest& self) {
    REQUIRE(self.group->announce("shell.restart-answered",
                                 R"({"shell": 0, "whole": true, "ordered": true, "restarts": 5, "ends": []})"));
    CHECK(self.shell->host().job().attempt_of(0) == 2);
    CHECK(self.shell->host().job().attempt_of(1) == 2);
    REQUIRE(self.group->announce("shell.restart-order", "{}"));  // the order that is under way does this
    CHECK(self.shell->host().job().restarts == 1);
  });
  it.after("shell.start", 0.3, [](ShellUnderTest& self) {
    self.group->end_elsewhere({Idset::range(3, 3), Record::of(WaitStatus::exited(0))});
  });
  CHECK(it.run() == 0);
  CHECK(it.group->count("gather restart.1") == 1);
  CHECK(it.called("task.fork") == 2);
  CHECK(it.group->raised() ==
        std::vector<std::string>{"raise restart 2 -1: all tasks of the job start again, as nacre "
                                 "restart has asked"});
}
