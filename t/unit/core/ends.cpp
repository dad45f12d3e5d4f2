// SPDX-License-Identifier: Apache-2.0
//
// How a Shell acts when its job ends: the exit code, who decides it, which failure is the cause, and what the tasks
// get.
#include <unistd.h>

#include "shell_under_test.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

using exits::Record;

Record exited(int code) { return Record::of(value::WaitStatus::exited(code)); }

Result<void> raise(ShellUnderTest& it, int code, const std::string& message) {
  it.shell->host().raise({"exec", 0, message, value::WaitStatus::exited(code)});
  return {};
}

}  // namespace

TEST_CASE("the exit code of a job that nobody ends is the highest of its tasks") {
  ShellUnderTest it;
  it.tasks = 3;
  it.command = {"sh", "-c", "exit $((FLUX_TASK_RANK + 3))"};
  CHECK(it.run() == 5);
  CHECK(it.logged.empty());
}

TEST_CASE("a task that cannot be started ends the job with 126 or 127") {
  std::uint32_t size = GENERATE(1, 3);
  ShellUnderTest it(0, size);
  it.tasks = 2;
  SECTION("there is no such program") {
    it.command = {"/nonexistent/program"};
    CHECK(it.run() == 127);
  }
  SECTION("it is not executable") {
    it.command = {"/"};
    CHECK(it.run() == 126);
  }
  CHECK(it.called("shell.start") == 0);
  CHECK(it.called("shell.finish") == 1);
  CHECK(it.called("shell.exit") == 1);
  CHECK(it.has_logged("task 0") == 1);
  if (it.group != nullptr) CHECK(it.group->raised().size() == 1);
}

TEST_CASE("a task that has ended before its shell knows that another one cannot be started has its end") {
  std::uint32_t size = GENERATE(1, 3);
  ShellUnderTest it(0, size);
  it.tasks = 4;
  it.at["task.exec"] = [](ShellUnderTest& self) -> Result<void> {
    const std::uint64_t rank = self.shell->host().current_task()->rank();
    if (rank < 3) return {};
    ::usleep(200'000);  // the others have ended when the shell goes on
    return invalid("it failed");
  };
  CHECK(it.run() == 126);
  CHECK(it.called("task.exit") == 3);
  CHECK(it.called("task.fork") == 3);
}

TEST_CASE(
    "each task has task.fork before its task.exit, though it ends meanwhile, and before the next one starts") {
  ShellUnderTest it;
  it.tasks = 2;
  std::vector<std::string> seen;
  it.at["task.fork"] = [&](ShellUnderTest& self) -> Result<void> {
    const task::Task& task = *self.shell->host().current_task();
    seen.push_back("fork");
    self.process.loop->run_until([&] { return task.state() == task::State::exited; });
    return {};
  };
  it.at["task.exit"] = [&](ShellUnderTest&) -> Result<void> {
    seen.push_back("exit");
    return {};
  };
  CHECK(it.run() == 0);
  CHECK(seen == std::vector<std::string>{"fork", "exit", "fork", "exit"});
}

TEST_CASE("what fails in task.exec, in the child, is reported by the parent") {
  std::uint32_t size = GENERATE(1, 3);
  ShellUnderTest it(0, size);
  std::string how;
  SECTION("an error") {
    it.at["task.exec"] = [](ShellUnderTest&) -> Result<void> { return invalid("it failed"); };
    how = "task.exec: it failed";
  }
  SECTION("raise") {
    it.at["task.exec"] = [](ShellUnderTest& self) { return raise(self, 3, "it was raised"); };
    how = "task.exec: it was raised";
  }
  SECTION("die") {
    it.at["task.exec"] = [](ShellUnderTest& self) -> Result<void> {
      self.shell->host().die(3, "", "it died");
      return {};
    };
    how = "task.exec: it died";
  }
  SECTION("exit") {
    it.at["task.exec"] = [](ShellUnderTest&) -> Result<void> { ::_exit(0); };
    how = "task.exec: the process exited with code 0, instead of returning";
  }
  SECTION("a signal") {
    it.at["task.exec"] = [](ShellUnderTest&) -> Result<void> {
      ::kill(::getpid(), SIGKILL);
      return {};
    };
    how = "task.exec: the process was killed by SIGKILL, instead of returning";
  }
  CHECK(it.run() == 126);
  CHECK(it.has_logged("plugin 'test': " + how) == 1);
  CHECK(it.called("shell.exit") == 1);
  CHECK(it.called("task.fork") == 0);
}

TEST_CASE("the second failure does not change what ended the job") {
  std::uint32_t size = GENERATE(1, 3);
  for (const char* first : {"shell.init", "shell.post-init", "task.fork", "shell.finish"}) {
    INFO(first << " of " << size);
    ShellUnderTest it(0, size);
    it.at[first] = [](ShellUnderTest& self) -> Result<void> {
      CHECK(raise(self, 3, "the first"));
      CHECK(raise(self, 7, "the second"));
      self.shell->host().die(8, "test", "the third");
      return {};
    };
    it.at["shell.exit"] = [](ShellUnderTest&) -> Result<void> { return invalid("the last"); };
    CHECK(it.run() == 3);
    REQUIRE(it.cause());
    CHECK_THAT(it.cause()->message, Catch::Matchers::StartsWith("the first"));
    CHECK(it.logged.size() == 1);
    CHECK(!it.error);
    if (it.group != nullptr) CHECK(it.group->raised().size() == 1);
  }
}

TEST_CASE("of failures on several shells the first in the order of all is the cause") {
  ShellUnderTest it(1, 3);
  it.group->decided = 9;
  it.at["shell.init"] = [](ShellUnderTest& self) -> Result<void> {
    CHECK(raise(self, 3, "mine"));  // this exception comes back from the leader later than the other
    self.raise_elsewhere(9);
    return {};
  };
  CHECK(it.run() == 9);
  REQUIRE(it.cause());
  CHECK(it.cause()->message == "shell 2 failed");
  CHECK(it.group->raised().size() == 1);
  CHECK(it.group->acts.back() == "leave 9");
}

TEST_CASE("an exception of another severity ends nothing") {
  std::uint32_t size = GENERATE(1, 3);
  ShellUnderTest it(0, size);
  it.at["shell.init"] = [](ShellUnderTest& self) -> Result<void> {
    self.shell->host().raise({"exec", 3, "a note", value::WaitStatus::exited(5)});
    CHECK(!self.shell->host().ending());
    return {};
  };
  CHECK(it.run() == 0);
  CHECK(it.has_logged("warn: exec: a note") == 1);
}

TEST_CASE("the code that comes down from the leader is what the others exit with") {
  ShellUnderTest it(2, 3);
  it.command = {"sh", "-c", "exit 3"};
  SECTION("it has the last word") {
    it.group->decided = 42;
    CHECK(it.run() == 42);
  }
  SECTION("it may be less than this shell's") {
    it.group->decided = 0;
    CHECK(it.run() == 0);
  }
  SECTION("but with exit_local") {
    it.config.exit_local = true;
    it.group->decided = 42;
    CHECK(it.run() == 3);
  }
  SECTION("where it is not learnt, what this shell knows counts") { CHECK(it.run() == 3); }
  CHECK(it.group->acts.back() == "leave 3");
}

TEST_CASE("the leader decides by the tasks of all shells") {
  ShellUnderTest it(0, 3);
  SECTION("which end before its own") {
    it.command = {"sleep", "0.1"};
    it.group->others = {value::Idset::range(1, 2), exited(4)};
  }
  SECTION("which end after its own") {
    it.group->others = {value::Idset::range(1, 1), exited(4)};
    it.at["shell.finish"] = [](ShellUnderTest& self) -> Result<void> {
      self.later(event::Seconds(0.05), [&self] {
        self.group->end_elsewhere({value::Idset::range(2, 2), exited(2)});
      });
      return {};
    };
  }
  CHECK(it.run() == 4);
  CHECK(it.called("shell.tasks-complete") == 1);
  CHECK(it.group->acts.back() == "leave 4");
}

TEST_CASE("the leader knows what tasks have used, though nothing is measured") {
  std::uint32_t size = GENERATE(1, 3);
  CAPTURE(size);
  Json used;
  plugin::Registration ended;
  ShellUnderTest it(0, size);
  it.tasks = 2;
  it.command = {"sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"};
  it.at["shell.init"] = [&](ShellUnderTest& self) -> Result<void> {
    ended = self.shell->host().on_ended([&](const Json& summary) { used = summary.at("used"); });
    return {};
  };
  std::uint64_t largest = 5;  // KiB
  SECTION("the largest task is of this shell, which it is a copy of") {}
  SECTION("the largest task is of another one") { largest = std::uint64_t{1} << 40; }
  if (it.group != nullptr) {
    it.group->others_sum = 7'000'000;
    it.group->others_max = static_cast<std::int64_t>(2 * largest + 1);
  }
  CHECK(it.run() == 0);
  ended = {};
  CHECK(used.at("tasks") == 2 * size);
  CHECK(used.at("ended") == 2 * size);
  CHECK(used.at("cpu").get<double>() > (size == 1 ? 0 : 7));
  if (size > 1 && largest > 5) {
    CHECK(used.at("maxrss") == largest << 10);
    CHECK_FALSE(used.contains("maxrss_is_bound"));
  } else {
    CHECK(used.at("maxrss").get<std::uint64_t>() > 100'000);
  }
  CHECK_FALSE(used.contains("missing"));
}

TEST_CASE("what the tasks of a lost shell have used is missing, and that is said") {
  Json used;
  plugin::Registration ended;
  ShellUnderTest it(0, 3);
  it.options = {{"on-lost", "go-on"}};
  it.group->others = {value::Idset::range(1, 1), exited(0)};
  it.at["shell.init"] = [&](ShellUnderTest& self) -> Result<void> {
    ended = self.shell->host().on_ended([&](const Json& summary) { used = summary.at("used"); });
    return {};
  };
  it.at["shell.finish"] = [](ShellUnderTest& self) -> Result<void> {
    self.later(event::Seconds(0.05), [&self] { self.group->lose(2); });
    return {};
  };
  it.run();
  ended = {};
  CHECK(used.at("tasks") == 3);
  CHECK(used.at("ended") == 2);
  CHECK(used.at("missing") == "2");
}

TEST_CASE("a failure in shell.finish or shell.exit counts on any shell") {
  for (const char* topic : {"shell.finish", "shell.exit"}) {
    for (group::Rank rank : {0, 2}) {
      INFO(topic << " of shell " << rank);
      ShellUnderTest it(rank, 3);
      it.at[topic] = [](ShellUnderTest&) -> Result<void> { return invalid("too late?"); };
      if (rank != 0) it.group->decided = 1;
      CHECK(it.run() == 1);
      REQUIRE(it.group->raised().size() == 1);
      auto position = [&](const std::string& act) {
        auto found = std::find(it.group->acts.begin(), it.group->acts.end(), act);
        return found - it.group->acts.begin();
      };
      // All shells have the exception before they leave: it is sent before the last barrier.
      CHECK(position(it.group->raised()[0]) < position("enter end"));
      CHECK(it.group->acts.back() == "leave 1");
    }
  }
}

TEST_CASE("an exception that comes while the shells wait for the last of them counts") {
  for (const char* barrier : {"exit", "end"}) {
    INFO(barrier);
    ShellUnderTest it(0, 3);
    it.group->at_barrier[barrier] = [&] { it.raise_elsewhere(6, 1); };
    CHECK(it.run() == 6);
    CHECK(it.group->acts.back() == "leave 6");
    CHECK(it.called("shell.exit") == 1);
  }
}

TEST_CASE("what runs when its shell begins to end the tasks is a victim, what ended before is not") {
  ShellUnderTest it(0, 3);
  it.tasks = 2;
  // Task 0 ends once both tasks have been started.
  it.command = {"sh", "-c",
                "test $FLUX_TASK_RANK = 0 && { trap 'exit 4' USR1; while :; do sleep 0.01; done; }; sleep 1000"};
  it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
    self.once_task_expects(SIGUSR1, [&self] { CHECK(self.shell->host().tasks()[0]->kill(SIGUSR1)); });
    return {};
  };
  it.at["task.exit"] = [](ShellUnderTest& self) -> Result<void> {
    if (!self.shell->host().ending()) self.shell->host().raise({"exec", 0, "a task failed", std::nullopt});
    return {};
  };
  CHECK(it.run() == 4);
  REQUIRE(it.group->ended.size() == 2);
  CHECK(it.group->ended[0].record == exited(4));
  CHECK(it.group->ended[1].record.kind() == Record::Kind::victim);
}

TEST_CASE("a task that does not end at SIGTERM is killed after the grace") {
  ShellUnderTest it;
  it.options = {{"kill-timeout", 0.2}};
  it.command = {"sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"};
  it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
    self.once_task_expects(SIGTERM, [&self] { CHECK(raise(self, 3, "enough")); });
    return {};
  };
  CHECK(it.run() == 3);
  CHECK(it.called("task.exit") == 1);
}

TEST_CASE("what a task has left behind is ended before the shell goes") {
  ShellUnderTest it;
  it.command = {"sh", "-c", "sleep 1000 & exit 0"};
  CHECK(it.run() == 0);  // run() also checks that no child is left
}

TEST_CASE("a shell that is cut off kills its tasks and waits for nobody") {
  ShellUnderTest it(1, 3);
  it.command = {"sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"};
  it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
    self.once_task_expects(SIGTERM, [&self] { self.group->cut_off("the leader has gone"); });
    return {};
  };
  SECTION("while its tasks run") {}
  SECTION("though something holds it") {
    it.at["shell.init"] = [](ShellUnderTest& self) -> Result<void> {
      self.shell->host().hold("work");
      return {};
    };
  }
  CHECK(it.run() == 1);
  CHECK(it.has_logged("cut off from the job's other shells: the leader has gone") == 1);
  CHECK(it.called("shell.exit") == 1);
}

TEST_CASE("a lost shell ends the job, unless that is tolerated") {
  ShellUnderTest it(0, 3);
  it.group->others = {value::Idset::range(1, 1), exited(0)};
  it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
    self.later(event::Seconds(0.05), [&self] { self.group->lose(2); });
    return {};
  };
  it.command = {"sleep", "0.3"};
  SECTION("not tolerated") {
    it.command = {"sleep", "1000"};
    CHECK(it.run() == Record::lost().code());
    CHECK(it.group->raised() == std::vector<std::string>{"raise node-failure 0 -1: shell 2 on node2 is lost: it "
                                                         "has ended, or cannot be reached; with it task 2"});
  }
  SECTION("tolerated") {
    it.options = {{"tolerate-loss", true}};
    CHECK(it.run() == Record::lost().code());
    CHECK(it.group->raised() == std::vector<std::string>{"raise node-failure 2 -1: shell 2 on node2 is lost: it "
                                                         "has ended, or cannot be reached; with it task 2"});
    CHECK(!it.process.end.is_ending());
  }
  CHECK(it.called("shell.lost") == 1);
}

TEST_CASE("plugins hear of a shell that is lost early once they have run shell.post-init") {
  ShellUnderTest it(0, 3);
  it.options = {{"tolerate-loss", true}};
  it.group->others = {value::Idset::range(1, 1), exited(0)};
  it.at["shell.init"] = [](ShellUnderTest& self) -> Result<void> {
    self.group->lose(2);
    CHECK(self.called("shell.lost") == 0);
    return {};
  };
  CHECK(it.run() == Record::lost().code());
  auto lost = std::find(it.topics.begin(), it.topics.end(), "shell.lost");
  REQUIRE(lost != it.topics.end());
  CHECK(*(lost - 1) == "shell.post-init");
}

TEST_CASE("a failure that a shell of the others has logged is not sent again") {
  ShellUnderTest it(1, 3);
  it.group->decided = 1;
  it.at["shell.init"] = [](ShellUnderTest& self) -> Result<void> {
    self.raise_elsewhere(1, 0);
    return Error{EINVAL, "the same here", true};
  };
  CHECK(it.run() == 1);
  CHECK(it.group->raised().empty());
}

TEST_CASE("what a timer throws ends the job with a line, but not that of a component that only tells") {
  const Component telling{"usage", false}, vital{"pmi", true};
  for (const Component* component : {&telling, &vital, static_cast<const Component*>(nullptr)}) {
    for (std::uint32_t shells : {1, 3}) {
      CAPTURE(component == nullptr ? "-" : component->name, shells);
      ShellUnderTest it(0, shells);
      it.command = {"sleep", "0.1"};
      it.at["shell.start"] = [component](ShellUnderTest& test) {
        const InComponent in_component(component);
        test.later(
            event::Seconds(0.001), [] { throw std::runtime_error("broken"); }, event::Seconds(0.001));
        return Result<void>();
      };
      const bool ends = component == nullptr || component->is_vital;
      CHECK(it.run() == (ends ? 1 : 0));
      if (!ends) {
        CHECK(it.has_logged("error: plugin 'usage': internal error: broken; the job goes on, without") == 1);
        continue;
      }
      REQUIRE(it.cause());
      std::string text = component == nullptr ? "internal error: broken" : "plugin 'pmi': internal error: broken";
      CHECK_THAT(it.cause()->message, Catch::Matchers::StartsWith(text));
    }
  }
}
