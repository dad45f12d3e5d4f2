// SPDX-License-Identifier: Apache-2.0
#include "task/task.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "run.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

namespace {

Task make_task(Command what = {}) { return Task(12, 3, std::move(what)); }

// A shell with a child of its own, both holding the write end of `out`. The shell prints its child's pid.
struct Family {
  Pipe out = make_pipe(O_CLOEXEC).value();
  Task task;
  pid_t child = 0;

  explicit Family(bool group) : task(make_task(sh("sleep 1000 & echo $!; wait"))) {
    task.command().setup.fds = {{1, out.write.get()}};
    task.command().setup.new_process_group = group;
    task.started(Spawner().spawn(task.command())->pid);
    out.write.reset();
    std::string text;
    for (char byte = 0; ::read(out.read.get(), &byte, 1) == 1 && byte != '\n';) text += byte;
    child = std::stoi(text);
  }
};

}  // namespace

TEST_CASE("a task's info grows with its life") {
  Task task = make_task();
  CHECK(task.info().dump() == R"({"localid":3,"rank":12,"state":"Init"})");
  task.started(4711);
  CHECK(task.info().dump() == R"({"localid":3,"pid":4711,"rank":12,"state":"Running"})");
  rusage usage{};
  usage.ru_maxrss = 99;
  task.exited(value::WaitStatus::exited(3), usage);
  CHECK(task.info().dump() ==
        R"({"exitcode":3,"localid":3,"pid":4711,"rank":12,"signaled":0,"state":"Exited","wait_status":768})");
  CHECK(task.usage().ru_maxrss == 99);
  CHECK(task.pid() == 4711);
}

TEST_CASE("a task that was killed has a signal and no exit code") {
  Task task = make_task();
  task.started(4711);
  task.exited(value::WaitStatus::killed(SIGKILL), {});
  CHECK(task.info().dump() ==
        R"({"localid":3,"pid":4711,"rank":12,"signaled":9,"state":"Exited","wait_status":9})");
}

TEST_CASE("a task that failed to start has exited without a pid") {
  Task task = make_task();
  task.exited(value::WaitStatus::exited(127), {});
  CHECK(task.info().dump() ==
        R"({"exitcode":127,"localid":3,"rank":12,"signaled":0,"state":"Exited","wait_status":32512})");
}

TEST_CASE("states go one way: anything else is an invariant that does not hold") {
  make_task().started(1);
  CHECK_THROWS_AS(make_task().started(0), std::logic_error);
  Task running = make_task();
  running.started(1);
  CHECK_THROWS_AS(running.started(2), std::logic_error);
  Task exited = make_task();
  exited.exited({}, {});
  CHECK_THROWS_AS(exited.started(1), std::logic_error);
  CHECK_THROWS_AS(exited.exited({}, {}), std::logic_error);
}

TEST_CASE("a signal reaches the whole process group of a task") {
  Family family(true);
  CHECK(family.task.kill(SIGKILL));
  CHECK(read_all(family.out.read.get()).empty());  // ends when both have gone
  CHECK(WTERMSIG(wait_for(family.task.pid())) == SIGKILL);
}

TEST_CASE("a signal reaches the task alone if it has no group of its own") {
  Family family(false);
  CHECK(family.task.kill(SIGKILL));
  CHECK(WTERMSIG(wait_for(family.task.pid())) == SIGKILL);
  CHECK(::kill(family.child, SIGKILL) == 0);
  CHECK(read_all(family.out.read.get()).empty());
}

TEST_CASE("no signal is sent to a task that does not run") {
  Task task = make_task();
  CHECK_FALSE(task.kill(SIGKILL));
  task.started(::getpid());
  task.exited({}, {});
  CHECK_FALSE(task.kill(SIGKILL));
}
