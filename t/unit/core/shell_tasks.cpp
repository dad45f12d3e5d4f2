// SPDX-License-Identifier: Apache-2.0
//
// The option at-most, and tasks that an earlier job has run: which tasks a shell starts, and when.
#include <sys/wait.h>
#include <unistd.h>

#include "core/shell_tasks.hpp"
#include "join/guard.hpp"
#include "shell_under_test.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using namespace nacre::kit;   // NOLINT
using namespace nacre::join;  // NOLINT

namespace {

using Ranks = std::vector<std::uint32_t>;

struct Tasks {
  explicit Tasks(std::uint32_t count) {
    for (std::uint32_t rank = 0; rank < count; ++rank)
      all.push_back(std::make_unique<task::Task>(rank, rank, task::Command{{"x"}, {}, {}}));
  }
  // The tasks that start next, and run from then on.
  Ranks start(TaskWindow& window, std::size_t most = SIZE_MAX) const {
    Ranks out;
    for (const auto& task : window.next(all, most)) {
      task->started(1);
      out.push_back(task->rank());
    }
    return out;
  }
  void end(TaskWindow& window, std::uint32_t rank) const {
    all[rank]->exited(value::WaitStatus::exited(0), {});
    window.give_back(rank);
  }

  std::vector<std::unique_ptr<task::Task>> all;
};

// How many tasks of `it` run, and which slots they have.
std::set<std::uint32_t> slots_in_use(ShellUnderTest& it, std::size_t& running) {
  std::set<std::uint32_t> out;
  running = 0;
  for (const auto& task : it.shell->host().tasks()) {
    if (task->state() != task::State::running) continue;
    ++running;
    out.insert(task->slot());
  }
  return out;
}

}  // namespace

TEST_CASE("without a limit all start, in rounds") {
  TaskWindow window;
  Tasks tasks(5);
  window.leave_out(1);
  CHECK(tasks.start(window, 3) == Ranks{0});
  CHECK(window.has_next(tasks.all));
  CHECK(tasks.start(window, 3) == Ranks{2, 3, 4});
  CHECK_FALSE(window.has_next(tasks.all));
  CHECK(tasks.start(window).empty());
}

TEST_CASE("a task has a slot until it has ended for good, and the next one gets it") {
  TaskWindow window;
  window.limit(2);
  Tasks tasks(6);
  CHECK(tasks.start(window) == Ranks{0, 1});
  CHECK_FALSE(window.has_next(tasks.all));
  CHECK(window.waits(*tasks.all[2]));
  tasks.end(window, 1);
  CHECK(tasks.start(window) == Ranks{2});
  CHECK(tasks.all[2]->slot() == 1);
  // A task that starts again keeps its slot, and comes first.
  tasks.all[0] = std::make_unique<task::Task>(0, 0, task::Command{{"x"}, {}, {}}, 2);
  CHECK_FALSE(window.waits(*tasks.all[0]));
  window.look_again_from(0);
  CHECK(tasks.start(window) == Ranks{0});
  CHECK(tasks.all[0]->slot() == 0);
  CHECK(tasks.start(window).empty());
  tasks.end(window, 0);
  window.leave_out(3);
  CHECK(tasks.start(window) == Ranks{4});
  tasks.end(window, 4);
  window.close();
  CHECK_FALSE(window.has_next(tasks.all));
  CHECK(tasks.start(window).empty());
}

TEST_CASE("at-most: so many run at the same time, and all run; shell.start comes after the first of them") {
  ShellUnderTest it;
  it.tasks = 9;
  it.options = {{"at-most", 2}};
  it.command = {"sh", "-c", "exit $((FLUX_TASK_RANK == 4 ? 3 : 0))"};
  Ranks order;
  it.at["task.fork"] = [&](ShellUnderTest& self) -> Result<void> {
    std::size_t running = 0;
    CHECK(slots_in_use(self, running).size() == running);
    CHECK(running <= 2);
    order.push_back(self.shell->host().current_task()->rank());
    return {};
  };
  it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
    CHECK(self.called("task.fork") == 2);
    return {};
  };
  CHECK(it.run() == 3);
  CHECK(order == Ranks{0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(it.called("task.exit") == 9);
}

TEST_CASE("at-most: a task that cannot be started does not end the others") {
  ShellUnderTest it;
  it.tasks = 4;
  it.options = {{"at-most", 1}};
  it.command = {"/nonexistent/program"};
  CHECK(it.run() == 127);
  CHECK(it.called("task.exit") == 4);
  CHECK(it.called("shell.start") == 1);
}

TEST_CASE("at-most: a failure that ends the job starts nothing more") {
  ShellUnderTest it;
  it.tasks = 6;
  it.options = {{"at-most", 2}};
  it.command = {"sleep", "60"};
  it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
    self.shell->host().raise({"exec", 0, "enough", value::WaitStatus::exited(9)});
    return {};
  };
  CHECK(it.run() == 9);
  CHECK(it.called("task.fork") == 2);
}

TEST_CASE("at-most: a signal that ends programs, sent to all tasks, is for those that wait as well") {
  ShellUnderTest it;
  it.tasks = 6;
  it.options = {{"at-most", 2}};
  int signum = SIGTERM;
  std::size_t started = 2;
  SECTION("it ends programs") { it.command = {"sleep", "60"}; }
  SECTION("it does not") {
    signum = SIGCONT;
    started = 6;
    it.command = {"true"};
  }
  it.at["shell.start"] = [&](ShellUnderTest& self) -> Result<void> {
    self.later(event::Seconds(0), [&self, signum] { self.shell->host().signal_tasks(signum, std::nullopt); });
    return {};
  };
  CHECK(it.run() == (signum == SIGTERM ? 128 + SIGTERM : 0));
  CHECK(it.called("task.fork") == started);
}

TEST_CASE("at-most: a task that waits can be left out by its rank") {
  ShellUnderTest it;
  it.tasks = 4;
  it.options = {{"at-most", 1}};
  Ranks order;
  it.at["task.fork"] = [&](ShellUnderTest& self) -> Result<void> {
    order.push_back(self.shell->host().current_task()->rank());
    return {};
  };
  it.at["shell.start"] = [](ShellUnderTest& self) -> Result<void> {
    self.shell->host().signal_tasks(SIGTERM, value::Idset::range(2, 2));
    return {};
  };
  CHECK(it.run() == 0);
  CHECK(order == Ranks{0, 1, 3});
}

TEST_CASE("at-most: what is no number of tasks is refused") {
  for (const Json& value : {Json(0), Json("many"), Json(1.5), Json(-1), Json::object()}) {
    ShellUnderTest it;
    it.options = {{"at-most", value}};
    CHECK(it.run() == 1);
    REQUIRE(it.error);
    CHECK_THAT(it.error->message, Catch::Matchers::StartsWith("at-most: expected a number of tasks"));
  }
}

TEST_CASE("ended-before: tasks that an earlier job has run do not run, and their ends count") {
  ShellUnderTest it;
  it.tasks = 4;
  it.options = {{"ended-before", {{"x0", "0"}, {"x5", "2"}}}};
  if (GENERATE(true, false)) it.options["at-most"] = 1;
  Ranks order;
  it.at["task.fork"] = [&](ShellUnderTest& self) -> Result<void> {
    order.push_back(self.shell->host().current_task()->rank());
    return {};
  };
  SECTION("some of them") {
    CHECK(it.run() == 5);
    CHECK(order == Ranks{1, 3});
  }
  SECTION("all of them") {
    it.options["ended-before"] = {{"x0", "0-3"}};
    CHECK(it.run() == 0);
    CHECK(order.empty());
  }
  SECTION("one that the job does not have") {
    it.options["ended-before"] = {{"x0", "7"}};
    CHECK(it.run() == 1);
  }
}

namespace {

void in_child(const std::function<void()>& what) {
  pid_t pid = ::fork();
  if (pid == 0) {
    what();
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}

}  // namespace

TEST_CASE("the first line that a child writes is what its parent reads") {
  ChildsLine line;
  CHECK(line.text().empty());
  in_child([&] {
    line.write("the first");
    line.write("the second");
    if (!line.failed()) ::_exit(1);
  });
  CHECK(line.text() == "the first");
  CHECK(!line.was_busy());
}

TEST_CASE("a child's line that is too long is cut") {
  ChildsLine line;
  in_child([&] { line.write(std::string(5000, 'x')); });
  CHECK(line.text() == std::string(3999, 'x'));
}

TEST_CASE("a parent knows that its child has ended within what it was busy with") {
  ChildsLine line;
  in_child([&] {
    line.set_busy(true);
    ::_exit(0);
  });
  CHECK(line.was_busy());
  in_child([&] { line.set_busy(false); });
  CHECK(!line.was_busy());
  CHECK(line.text().empty());
}

TEST_CASE("a record for the guard has its kind and its size in front, and is whole or not there") {
  CHECK(guard_record(GuardKind::directory, "/a") == std::string("\2\2\0/a", 5));
  CHECK(guard_record(GuardKind::no_directory, "") == std::string("\3\0\0", 3));
  CHECK(guard_record(GuardKind::group, std::string(300, 'p')).substr(0, 3) == "\1\x2c\1");
  std::string largest(4096 - 3, 'x');  // PIPE_BUF
  CHECK(guard_record(GuardKind::directory, largest).size() == 4096);
  CHECK(guard_record(GuardKind::directory, largest + "x").empty());
}
