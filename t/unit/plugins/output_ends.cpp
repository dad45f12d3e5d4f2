// SPDX-License-Identifier: Apache-2.0
//
// The plugin `output`: when all of a task's output has come out, and its last bytes.
#include <csignal>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "folder.hpp"
#include "output_tasks.hpp"
#include "plugin/output_left.hpp"

using namespace nacre;
using kit::kErr;
using kit::kOut;
using kit::Tasks;

TEST_CASE("it is known of failed tasks whether all that they have written has come out") {
  Tasks tasks(4);
  auto left = [&] { return plugin::output_left(tasks.host, value::Idset::range(0, 3)).str(); };
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
  auto left = [&] { return plugin::output_left(tasks.host, value::Idset::range(0, 1)).str(); };
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
  auto tail = [&](int rank) {
    plugin::Call call("output.tail");
    call.in["rank"] = rank;
    REQUIRE(tasks.host.stack().call(call));
    return call.out;
  };
  tasks.start();
  CHECK(tail(1) == Json{{"stdout", ""}, {"stderr", ""}, {"complete", false}});
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
  Json first = tail(0);
  CHECK(first["stdout"].get<std::string>().size() == 1024);
  CHECK(first["stderr"].get<std::string>().size() == 4096);
  CHECK(first["stderr"].get<std::string>().ends_with("err 1998\nerr 1999\n"));
  CHECK(tail(1) == Json{{"stdout", ""}, {"stderr", "why\n"}, {"complete", true}});
  CHECK(tail(7) == Json::object());
}

TEST_CASE("of a file that the task itself writes the last bytes are read") {
  kit::Folder folder;
  Tasks tasks(1);
  tasks.host.options().set("output.stderr.type", "file");
  tasks.host.options().set("output.stderr.path", folder.path("{{taskid}}.err"));
  tasks.start();
  REQUIRE(tasks.write(0, kErr, std::string(5000, 'x') + "why\n"));
  plugin::Call call("output.tail");
  call.in["rank"] = 0;
  REQUIRE(tasks.host.stack().call(call));
  CHECK(call.out["stderr"] == std::string(4092, 'x') + "why\n");
  tasks.run_to_end();
}
