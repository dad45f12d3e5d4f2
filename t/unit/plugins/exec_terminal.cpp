// SPDX-License-Identifier: Apache-2.0
//
// Commands beside the tasks on a terminal of their own, on a FakeHost, with a front end that is the test.

#include "catch.hpp"

#include "exec_world.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT
using kit::ExecWorld;

namespace {

const Json kSize{{"pty", {{"rows", 33}, {"columns", 99}}}};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("exec on a terminal: it controls the command's session, and has its size", "[control]") {
  ExecWorld world(1);
  world.begin(1, "stty size; tty </dev/tty; ps -o sid= -p $$ | tr -d ' '; echo $$; exit 3", kSize);
  REQUIRE(world.answered(1));
  std::string& out = world.output[1];
  CHECK(out.starts_with("33 99\r\n/dev/tty\r\n"));
  std::string pids = out.substr(std::string_view("33 99\r\n/dev/tty\r\n").size());
  CHECK(pids.substr(0, pids.find('\r')) + "\r\n" == pids.substr(pids.find('\n') + 1));
  CHECK(world.streams == std::set<std::string>{"pty"});
  CHECK(world.exits[1] == std::vector<std::string>{"x3"});
}

TEST_CASE("exec on a terminal: keys, and a new size, of its own request only", "[control]") {
  ExecWorld world(1);
  // The command must be in read: a signal that comes just before the read blocks is handled only after it has read
  // something.
  world.begin(1,
              "trap 'stty size; seen=1' WINCH; echo up; until [ $seen ]; do sleep 0.01; done; read -r line; "
              "echo got $line; exec sleep 600",
              kSize);
  REQUIRE(world.host.serve([&] { return has(world.output[1], "up"); }));
  CHECK(world.granted == kExecInputWindow);
  Json size{{"request", 1}, {"rows", 10}, {"columns", 65535}};
  CHECK(world.execs.control(1, "size", size));
  REQUIRE(world.host.serve([&] { return has(world.output[1], "10 65535"); }));
  world.execs.input({1, 1}, "stdin", "other\r");  // a terminal has no such stream
  world.execs.input({1, 1}, "pty", "key");
  world.execs.input({1, 1}, "pty", "s\r");
  REQUIRE(world.host.serve([&] { return has(world.output[1], "got keys"); }));
  CHECK_FALSE(has(world.output[1], "other"));
  world.execs.input({1, 1}, "pty", "\x03");
  REQUIRE(world.answered(1));
  CHECK(world.exits[1] == std::vector<std::string>{"s2"});
  CHECK(world.execs.control(1, "size", size).error().code == ESRCH);
}

TEST_CASE("exec on a terminal: sizes that are none, and requests without a terminal", "[control]") {
  ExecWorld world(1);
  world.begin(1, "sleep 600");
  for (Json rows : {Json(0), Json(-1), Json(65536), Json(1.5), Json("x"), Json(std::uint64_t{1} << 63), Json()}) {
    Json size{{"rows", rows}, {"columns", 80}};
    world.begin(2, "true", {{"pty", size}});
    CHECK(has(world.answers[2], "rows"));
    world.answers.erase(2);
    size["request"] = 1;
    CHECK(world.execs.control(1, "size", size).error().code == EINVAL);
  }
  Json size{{"request", 1}, {"rows", 10}, {"columns", 20}};
  CHECK(world.execs.control(1, "size", size).error().code == ENOTTY);
  CHECK(world.execs.control(2, "size", size).error().code == ESRCH);  // another link
  world.execs.input({1, 1}, "pty", "keys");
  CHECK(world.execs.control(1, "exec-signal", {{"exec", 1}, {"signal", SIGKILL}}));
  REQUIRE(world.answered(1));
}

TEST_CASE("exec on a terminal: one command, that is not detached", "[control]") {
  ExecWorld world(4);
  Json two = kSize;
  two["ranks"] = "0-1";
  world.begin(1, "true", two);
  CHECK(has(world.answers[1], "a terminal is that of one command, and 2 are asked for"));
  Json detached = kSize;
  detached["detach"] = true;
  world.begin(2, "true", detached);
  CHECK(has(world.answers[2], "has no terminal"));
  CHECK(world.runner.running() == 0);
}

TEST_CASE("exec on a terminal: it is hung up at the end of its input, or when the front end has gone",
          "[control]") {
  for (bool goes : {false, true}) {
    ExecWorld world(1, "100s");
    world.begin(1, "trap 'exit 4' HUP; sleep 700 & echo up; while :; do sleep 0.01; done", kSize);
    REQUIRE(world.host.serve([&] { return has(world.output[1], "up"); }));
    if (goes)
      world.execs.gone(1);
    else
      world.execs.input({1, 1}, "pty", {});
    REQUIRE(world.host.serve([&] { return world.runner.running() == 0; }));
    if (!goes) CHECK(world.exits[1] == std::vector<std::string>{"x4"});
  }
}

TEST_CASE("exec on a terminal: the command is hung up before what it waits for ends", "[control]") {
  ExecWorld world(1, "100s");
  // The command's children run for ever, and it reports when all are there: a child that it starts after the
  // signals would get none, and the command would wait for it.
  const char* script =
      "trap 'exit 4' HUP; i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i + 1)); done; "
      "sh -c 'echo up; while :; do sleep 0.01; done'";
  world.begin(1, script, kSize);
  REQUIRE(world.host.serve([&] { return has(world.output[1], "up"); }));
  CHECK(world.execs.control(1, "exec-end", {{"exec", 1}}));
  REQUIRE(world.answered(1));
  CHECK(world.exits[1] == std::vector<std::string>{"x4"});
}

TEST_CASE("exec on a terminal: what takes no SIGHUP is killed after kill-timeout", "[control]") {
  ExecWorld world(1);
  world.begin(1, "trap '' HUP TERM; echo up; sleep 600; sleep 600", kSize);
  REQUIRE(world.host.serve([&] { return has(world.output[1], "up"); }));
  CHECK(world.execs.control(1, "exec-end", {{"exec", 1}}));
  REQUIRE(world.answered(1));
  CHECK(world.exits[1] == std::vector<std::string>{"s9"});
}

TEST_CASE("exec on a terminal: a front end that takes nothing holds up the command, and little is kept",
          "[control]") {
  ExecWorld world(1);
  world.room = 1000;
  world.begin(1, "stty raw; head -c 3000000 /dev/zero", kSize);
  REQUIRE(world.host.serve([&] { return world.records >= kTerminalWindow; }));
  for (int i = 0; i < 100; ++i) world.host.loop().poll();
  CHECK(world.records < kTerminalWindow + 10'000);
  while (!world.answers.contains(1)) {
    world.room = 100'000;
    world.execs.on_room({1, 1});
    world.host.loop().poll();
  }
  CHECK(world.output[1].size() == 3'000'000);
}
