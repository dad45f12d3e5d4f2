// SPDX-License-Identifier: Apache-2.0
//
// What comes to a Shell from outside while it is in one of its phases: signals, failures of other shells, the end
// of its launcher.

#include "shell_under_test.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

// Something that ends the job, and the job's code then.
struct Interruption {
  const char* name;
  std::function<void(ShellUnderTest&)> come;
  int code;
};

Interruption signal_of(const char* name, int signum) {
  return {name, [signum](ShellUnderTest& it) { it.receive(signum); }, 128 + signum};
}

std::vector<Interruption> of_any_job() {
  return {signal_of("SIGINT", SIGINT),
          signal_of("SIGTERM", SIGTERM),
          signal_of("SIGHUP", SIGHUP),
          signal_of("SIGQUIT", SIGQUIT),
          {"the launcher's SIGTERM", [](ShellUnderTest& it) { it.receive(SIGTERM, Signals::From::launcher); }, 143},
          {"its launcher's end", [](ShellUnderTest& it) { it.lose_launcher(); }, 1},
          {"its launcher's end by a second SIGTERM", [](ShellUnderTest& it) { it.lose_launcher(SIGTERM); }, 143}};
}

std::vector<Interruption> of_several() {
  std::vector<Interruption> all = of_any_job();
  all.push_back({"a failure of another shell", [](ShellUnderTest& it) { it.raise_elsewhere(9); }, 9});
  return all;
}

// Topics in which the job is being started, so that each signal ends it, and the topics that follow.
const std::vector<std::string> kOfTheStart{"shell.init", "shell.post-init", "task.init", "task.fork",
                                           "shell.start"};

void interrupt_in(ShellUnderTest& it, const std::string& topic, const Interruption& by) {
  it.at[topic] = [by](ShellUnderTest& self) -> Result<void> {
    by.come(self);
    return {};
  };
}

}  // namespace

TEST_CASE("whatever ends a job of one shell in a topic of its start ends it with its code") {
  for (const std::string& topic : kOfTheStart) {
    for (const Interruption& by : of_any_job()) {
      INFO(by.name << " in " << topic);
      ShellUnderTest it;
      it.command = {"sleep", "1000"};
      interrupt_in(it, topic, by);
      CHECK(it.run() == by.code);
      CHECK(!it.error);
      CHECK(it.topics.back() == "shell.exit");
      CHECK(it.called("shell.exit") == 1);
      bool has_started = topic == "task.fork" || topic == "shell.start";
      CHECK(it.called("task.exit") == has_started);
      CHECK(it.logged.size() == 1);
    }
  }
}

TEST_CASE("whatever ends a job in a topic of the start of one shell of three ends it with its code") {
  group::Rank rank = GENERATE(0, 1);
  for (const std::string& topic : kOfTheStart) {
    for (const Interruption& by : of_several()) {
      INFO(by.name << " in " << topic << " of shell " << rank);
      ShellUnderTest it(rank, 3);
      it.command = {"sleep", "1000"};
      it.group->never_entered = {"init", "start"};
      if (topic != "shell.init") it.group->never_entered = {"start"};
      if (rank != 0) it.group->decided = by.code;
      interrupt_in(it, topic, by);
      CHECK(it.run() == by.code);
      CHECK(it.called("shell.exit") == 1);
      bool own = std::string(by.name) != "a failure of another shell";
      CHECK(it.group->raised().size() == own);
      CHECK(it.group->acts.back() == fmt::format("leave {}", by.code));
      CHECK(it.group->count("enter end") == 1);
      CHECK(it.logged.size() == (rank == 0));  // only the leader logs it
    }
  }
}

TEST_CASE("who waits for the other shells at a barrier of the start waits no longer than the job goes on") {
  group::Rank rank = GENERATE(0, 1);
  for (const char* barrier : {"init", "start"}) {
    for (const Interruption& by : of_several()) {
      INFO(by.name << " at " << barrier << " of shell " << rank);
      ShellUnderTest it(rank, 3);
      it.command = {"sleep", "1000"};
      it.group->never_entered = {barrier};
      it.group->at_barrier[barrier] = [&] { by.come(it); };
      if (rank != 0) it.group->decided = by.code;
      CHECK(it.run() == by.code);
      bool has_started = std::string(barrier) == "start";
      CHECK(it.called("task.exit") == has_started);
      CHECK(it.called("shell.post-init") == has_started);
      CHECK(it.called("shell.exit") == 1);
      // Each shell sends a signal that ends the tasks to its own tasks.
      CHECK(it.group->count("signal") == 0);
    }
  }
}

TEST_CASE("whoever holds the start holds it until the job is being ended") {
  for (const Interruption& by : of_any_job()) {
    INFO(by.name);
    ShellUnderTest it;
    it.at["shell.init"] = [&](ShellUnderTest& self) -> Result<void> {
      self.shell->host().hold_start("prolog");
      self.later(event::Seconds(0.01), [&] { by.come(self); });
      return {};
    };
    CHECK(it.run() == by.code);
    CHECK(it.called("task.init") == 0);
    CHECK(it.called("shell.exit") == 1);
  }
}

TEST_CASE("a signal that comes to the process while a handler runs is taken up before the next step") {
  for (const char* topic : {"shell.init", "shell.post-init", "task.init", "task.fork", "shell.start"}) {
    for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      INFO(signum << " in " << topic);
      ShellUnderTest it;
      it.command = {"sleep", "1000"};
      it.at[topic] = [signum](ShellUnderTest&) -> Result<void> {
        ::raise(signum);
        return {};
      };
      CHECK(it.run() == 128 + signum);
      CHECK(it.topics.back() == "shell.exit");
    }
  }
}

TEST_CASE(
    "a signal that comes in the last handlers of a job of one shell counts, though its tasks have ended well") {
  for (const char* topic : {"shell.finish", "shell.tasks-complete", "shell.exit"}) {
    for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      INFO(signum << " in " << topic);
      ShellUnderTest it;
      it.at[topic] = [signum](ShellUnderTest&) -> Result<void> {
        ::raise(signum);
        return {};
      };
      CHECK(it.run() == 128 + signum);
      CHECK(it.called("shell.exit") == 1);
    }
  }
}

TEST_CASE("a signal to a shell whose tasks run is theirs, but for the second interrupt") {
  group::Rank size = GENERATE(1, 3);
  ShellUnderTest it(0, size);
  it.command = {"sh", "-c", "exec 2>/dev/null; trap 'exit 3' TERM HUP QUIT INT; while :; do sleep 0.01; done"};
  SECTION("SIGTERM") {
    it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
      self.once_task_expects(SIGTERM, [&self] { self.receive(SIGTERM); });
      return {};
    };
    CHECK(it.run() == 3);
    CHECK(!it.process.end.is_ending());
  }
  SECTION("one interrupt") {
    it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
      self.once_task_expects(SIGINT, [&self] { self.receive(SIGINT); });
      return {};
    };
    CHECK(it.run() == 3);
    CHECK(it.has_logged("a second one within") == 1);
  }
  SECTION("two interrupts") {
    it.command = {"sh", "-c", "trap '' INT; while :; do sleep 0.01; done"};
    it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
      self.once_task_expects(SIGINT, [&self] {
        self.receive(SIGINT);
        self.receive(SIGINT);
      });
      return {};
    };
    CHECK(it.run() == 130);
    CHECK(it.has_logged("second interrupt: ending the job") == 1);
  }
  SECTION("of the launcher: for the tasks of all shells") {
    it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
      self.once_task_expects(SIGHUP, [&self] { self.receive(SIGHUP, Signals::From::launcher); });
      return {};
    };
    if (it.group != nullptr) it.group->others = {value::Idset{}, exits::Record::of(value::WaitStatus::exited(0))};
    if (it.group != nullptr) {
      it.at["task.exit"] = [](ShellUnderTest& self) -> Result<void> {
        self.group->end_elsewhere({value::Idset::range(1, 2), exits::Record::of(value::WaitStatus::exited(0))});
        return {};
      };
    }
    CHECK(it.run() == 3);
    if (it.group != nullptr) CHECK(it.group->count("signal 1") == 1);
  }
}

TEST_CASE("a signal once all tasks have ended ends the job with its code") {
  for (const char* topic : {"shell.finish", "shell.tasks-complete", "shell.exit"}) {
    for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      for (std::uint32_t size : {1, 3}) {
        // With three shells it is not known in shell.finish how the other shells' tasks have ended.
        if (size > 1 && std::string(topic) == "shell.finish") continue;
        INFO(signum << " in " << topic << " of " << size);
        ShellUnderTest it(0, size);
        interrupt_in(it, topic, signal_of("", signum));
        CHECK(it.run() == 128 + signum);
        CHECK(it.called("shell.exit") == 1);
      }
    }
  }
}

TEST_CASE("a failure of another shell ends this one in the topics of its end, too") {
  group::Rank rank = GENERATE(0, 1);
  for (const char* topic : {"task.exit", "shell.finish", "shell.exit"}) {
    INFO(topic << " of shell " << rank);
    ShellUnderTest it(rank, 3);
    if (rank != 0) it.group->decided = 9;
    it.at[topic] = [](ShellUnderTest& self) -> Result<void> {
      self.raise_elsewhere(9);
      return {};
    };
    CHECK(it.run() == 9);
    CHECK(it.group->raised().empty());
    CHECK(it.called("shell.exit") == 1);
    CHECK(it.has_logged("shell 2 failed") == (rank == 0));
  }
}

TEST_CASE("a failure of another shell while the tasks run, or after them, ends them and what holds the shell") {
  ShellUnderTest it(1, 3);
  it.command = {"sleep", "1000"};
  it.group->decided = 9;
  it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
    self.later(event::Seconds(0.05), [&self] { self.raise_elsewhere(9); });
    return {};
  };
  CHECK(it.run() == 9);
  REQUIRE(it.group->ended.size() == 1);
  CHECK(it.group->ended[0].record.kind() == exits::Record::Kind::victim);
}
