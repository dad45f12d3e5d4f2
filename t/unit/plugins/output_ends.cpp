// SPDX-License-Identifier: Apache-2.0
//
// The plugin `output`: when all of a task's output has come out, and its last bytes.
#include <csignal>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "folder.hpp"
#include "output_tasks.hpp"

using namespace nacre;
using kit::kErr;
using kit::kOut;
using kit::Tasks;

TEST_CASE("it is known of failed tasks whether all that they have written has come out") {
  Tasks tasks(4);
  auto left = [&] { return tasks.host.task_output()->come_out().str(); };
  tasks.start();
  CHECK(left().empty());
  tasks.exit(0);
  tasks.poll();
  CHECK(left().empty());
  REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(3)));
  CHECK(left() == "0");
  tasks.end(1, kOut).reset();  // a process that it has left behind holds the other
  REQUIRE(tasks.host.end_task(1, value::WaitStatus::killed(SIGSEGV)));
  tasks.poll();
  CHECK(left() == "0");
  tasks.exit(1);
  tasks.poll();
  CHECK(left() == "0-1");
  tasks.exit(2);
  REQUIRE(tasks.host.end_task(2, value::WaitStatus::exited(0)));
  tasks.poll();
  CHECK(left() == "0-1");
  tasks.run_to_end();
}

TEST_CASE("what a failed task has written has not come out while its reader does not read") {
  Tasks tasks(2);
  Pipe pipe = *make_pipe(O_CLOEXEC);
  tasks.out = std::move(pipe.write);
  auto left = [&] { return tasks.host.task_output()->come_out().str(); };
  tasks.start();
  for (int i = 0; i < 3; ++i) {
    REQUIRE(tasks.write(0, kOut, std::string(60000, 'x') + '\n'));
    tasks.poll();
  }
  tasks.exit(0);
  tasks.poll();
  REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(3)));
  CHECK(left().empty());
  REQUIRE(tasks.write(1, kOut, std::string(60000, 'y') + '\n'));  // waits behind it
  tasks.poll();
  std::string text;
  while (text.size() < 3 * 60001) {
    char bytes[4096];
    ssize_t got = ::read(pipe.read.get(), bytes, sizeof bytes);
    REQUIRE(got > 0);
    text.append(bytes, static_cast<std::size_t>(got));
    tasks.poll();
  }
  CHECK(left() == "0");
  pipe.read.reset();
  tasks.run_to_end();
}

TEST_CASE("the last bytes of what a task has written are kept") {
  Tasks tasks(2);
  auto tail = [&](std::uint32_t rank) { return tasks.host.task_output()->tail(rank).value(); };
  tasks.start();
  CHECK(tail(1).err.empty());
  for (int i = 0; i < 2000; ++i) {
    REQUIRE(tasks.write(0, kOut, fmt::format("out {}\n", i)));
    REQUIRE(tasks.write(0, kErr, fmt::format("err {}\n", i)));
    tasks.poll();
  }
  REQUIRE(tasks.write(1, kErr, "why\n"));
  tasks.exit(0);
  tasks.exit(1);
  tasks.poll();
  REQUIRE(tasks.host.end_task(1, value::WaitStatus::exited(3)));
  CHECK(tail(0).out.size() == 1024);
  CHECK(tail(0).err.size() == 4096);
  CHECK(tail(0).err.ends_with("err 1998\nerr 1999\n"));
  CHECK_FALSE(tail(0).is_complete);
  CHECK(tail(1).err == "why\n");
  CHECK(tail(1).is_complete);
  CHECK_FALSE(tasks.host.task_output()->tail(7));
}

TEST_CASE("of a file that the task itself writes the last bytes are read") {
  kit::TemporaryFolder folder;
  Tasks tasks(1);
  tasks.host.options().set("output.stderr.type", "file");
  tasks.host.options().set("output.stderr.path", folder.path("{{taskid}}.err"));
  tasks.start();
  REQUIRE(tasks.write(0, kErr, std::string(5000, 'x') + "why\n"));
  CHECK(tasks.host.task_output()->tail(0)->err == std::string(4092, 'x') + "why\n");
  tasks.run_to_end();
}
