// SPDX-License-Identifier: Apache-2.0
//
// Commands beside the tasks: the leader's side and a shell's together, on a FakeHost, with a front end that is the
// test.

#include "catch.hpp"

#include "exec_world.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT
using kit::ExecWorld;

TEST_CASE("exec: what a command writes comes before how it ends, and then the answer", "[control]") {
  ExecWorld world;
  world.begin(1, "echo a; echo b >&2; exit 3");
  REQUIRE(world.answered(1));
  CHECK((world.output[1] == "a\n!b\n" || world.output[1] == "!b\na\n"));
  CHECK(world.exits[1] == std::vector<std::string>{"x3"});
  CHECK(world.answers[1].empty());
  CHECK(world.runner.running() == 0);
}

TEST_CASE("exec: beside tasks, once for each, with its variables", "[control]") {
  ExecWorld world;
  for (const auto& task : world.host.tasks()) task->command().env.set("MINE", std::to_string(task->rank()));
  world.begin(1, "echo $MINE ${PMI_FD-none}", {{"ranks", "1,3"}});
  REQUIRE(world.answered(1));
  CHECK((world.output[1] == "1 none\n3 none\n" || world.output[1] == "3 none\n1 none\n"));
  CHECK(world.exits[1].size() == 2);
}

TEST_CASE("exec: a front end that takes nothing holds up the command, and little is kept", "[control]") {
  ExecWorld world;
  constexpr std::size_t kSize = 3'000'000;
  world.room = 1000;
  world.begin(1, "head -c 3000000 /dev/zero");
  REQUIRE(world.host.serve([&] { return world.records >= kMostExecWindow; }));
  world.begin(2, "exit 0");
  REQUIRE(world.answered(2));  // another request is not held up
  CHECK(world.records < kMostExecWindow + 10'000);
  CHECK(world.output[1].size() == 1000);
  while (!world.answers.contains(1)) {
    world.room = 100'000;
    world.execs.on_room({1, 1});
    world.host.loop().poll();
  }
  CHECK(world.output[1].size() == kSize);
}

TEST_CASE("exec: all ends when the front end has gone: what takes no SIGTERM, and what has left the group",
          "[control]") {
  ExecWorld world;
  world.begin(1, "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 600; sleep 600'; sleep 600");
  REQUIRE(world.host.serve([&] { return !world.output[1].empty(); }));
  auto left = static_cast<pid_t>(std::stol(world.output[1]));
  world.execs.gone(1);
  REQUIRE(world.host.serve([&] { return world.runner.running() == 0; }));
  CHECK(world.host.serve([&] { return ::kill(left, 0) != 0; }));
}

TEST_CASE("exec: it is ended by the front end, and with the tasks of the job", "[control]") {
  ExecWorld world;
  world.begin(1, "echo up; exec sleep 600");
  world.begin(2, "echo up; exec sleep 600");
  REQUIRE(world.host.serve([&] { return world.output.size() == 2; }));
  CHECK(world.execs.control(1, "exec-signal", {{"exec", 1}, {"signal", SIGUSR1}}));
  REQUIRE(world.answered(1));
  CHECK(world.exits[1] == std::vector<std::string>{"s10"});
  CHECK_FALSE(world.execs.control(1, "exec-end", {{"exec", 1}}));
  CHECK_FALSE(world.execs.control(2, "exec-end", {{"exec", 2}}));  // of another link
  bool over = false;
  world.execs.end_all([&] { over = true; });
  REQUIRE(world.host.serve([&] { return over; }));
  CHECK(world.exits[2] == std::vector<std::string>{"s15"});
  world.begin(3, "true");
  CHECK(world.answers[3].find("the job is ending") != std::string::npos);
}

TEST_CASE("exec: no more than 64 at a time", "[control]") {
  ExecWorld world;
  for (std::uint64_t id = 1; id <= kMaxExecs; ++id) world.begin(id, "exec sleep 600", {{"detach", true}});
  CHECK(world.answers.size() == kMaxExecs);
  world.begin(100, "true");
  CHECK(world.answers[100].find("64 commands run beside this job") == 0);
  world.execs.gone(1);  // detached commands go on
  CHECK(world.runner.running() == kMaxExecs);
  bool over = false;
  world.execs.end_all([&] { over = true; });
  CHECK(world.host.serve([&] { return over; }));
}

TEST_CASE("exec: input comes once it is granted, and its end", "[control]") {
  ExecWorld world;
  world.begin(1, "wc -c", {{"stdin", true}});
  CHECK(world.granted == kExecInputWindow);
  std::string piece(100'000, 'x');
  std::size_t sent = 0;
  for (int i = 0; i < 10; ++i) {
    REQUIRE(world.host.serve([&] { return world.granted >= sent + piece.size(); }));
    world.execs.input({1, 1}, "stdin", piece);
    sent += piece.size();
  }
  world.execs.input({1, 1}, "stdin", {});
  REQUIRE(world.answered(1));
  CHECK(world.output[1] == "1000000\n");
}

TEST_CASE("exec: what cannot be started, or is asked wrongly", "[control]") {
  ExecWorld world;
  world.execs.begin({1, 1}, {{"command", {"no-such-command"}}});
  REQUIRE(world.answered(1));
  CHECK(world.exits[1] == std::vector<std::string>{"f127"});
  world.execs.begin({1, 2}, {{"command", Json::array()}});
  CHECK(world.answers[2].find("expected a command") != std::string::npos);
  world.execs.begin({1, 3}, {{"command", {"true"}}, {"shells", "1"}});
  CHECK(world.answers[3].find("no shell 1") != std::string::npos);
}

TEST_CASE("exec: a shell that is lost meanwhile is an end of its own", "[control]") {
  ExecWorld world;
  world.begin(1, "exec sleep 600");
  world.execs.shell_gone(0, false);
  REQUIRE(world.answers.contains(1));
  CHECK(world.exits[1] == std::vector<std::string>{"l"});
  ExecNotice end;
  end.number = 1;
  end.ends = true;
  world.host.announced(kExecTopic, end.text());
  CHECK(world.host.serve([&] { return world.runner.running() == 0; }));
}
