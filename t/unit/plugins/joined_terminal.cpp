// SPDX-License-Identifier: Apache-2.0
//
// Viewers of tasks' terminals, on a FakeHost: the test is the task, the plugin that reads its terminal, and the
// front ends.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "catch.hpp"

#include "exec_world.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT
using kit::ExecWorld;

namespace {

constexpr std::size_t kKept = task::Pty::kKept;

// Task 1 has a terminal of 24 rows and 80 columns.
struct JoinWorld : ExecWorld {
  explicit JoinWorld(bool is_shown = false) : ExecWorld(2) {
    auto pty = task::Pty::open(winsize{24, 80, 0, 0});
    REQUIRE(pty);
    slave = UniqueFd(::fcntl((*pty)->slave(), F_DUPFD_CLOEXEC, 3));
    termios modes{};
    ::tcgetattr(slave.get(), &modes);
    ::cfmakeraw(&modes);
    ::tcsetattr(slave.get(), TCSANOW, &modes);
    ::fcntl(slave.get(), F_SETFL, O_NONBLOCK);
    if (is_shown) REQUIRE((*pty)->set_size(winsize{24, 80, 0, 0}, true));
    (*pty)->keep();
    task().set_pty(*std::move(pty));
    task().started(1 << 30);
  }

  task::Task& task() { return *host.tasks()[1]; }
  task::Pty& pty() { return *task().pty(); }
  void join(std::uint64_t id, int rows = 24, int columns = 80, int rank = 1) {
    execs.join({1, id}, {{"pty", {{"rank", rank}, {"rows", rows}, {"columns", columns}}}});
  }
  [[nodiscard]] std::string size() const {
    winsize now{};
    REQUIRE(::ioctl(slave.get(), TIOCGWINSZ, &now) == 0);
    return std::to_string(now.ws_row) + "x" + std::to_string(now.ws_col);
  }
  // What has been typed, up to `most` bytes.
  std::string typed(std::size_t most) {
    std::string out;
    REQUIRE(host.serve([&] {
      std::array<char, 4096> buffer;
      ssize_t got = ::read(slave.get(), buffer.data(), std::min(buffer.size(), most - out.size()));
      if (got > 0) out.append(buffer.data(), static_cast<std::size_t>(got));
      return out.size() == most;
    }));
    return out;
  }
  void end_task(int code) {
    slave.reset();
    pty().hang_up();
    task().exited(value::WaitStatus::exited(code), {});
    runner.task_ended();
  }

  UniqueFd slave;
};

}  // namespace

TEST_CASE("a viewer gets what the task wrote last, and what it writes, and how it ended", "[control]") {
  JoinWorld world;
  world.pty().note("before ");
  world.join(1);
  CHECK(world.output[1] == "before ");
  world.pty().note("now");
  CHECK(world.output[1] == "before now");
  CHECK(world.streams == std::set<std::string>{"pty"});
  CHECK(world.answers.empty());
  world.end_task(5);
  CHECK(world.exits[1] == std::vector<std::string>{"x5"});
  CHECK(world.answers[1].empty());
  CHECK(world.answers.contains(1));
  CHECK(world.runner.running() == 0);
  world.join(2);  // too late
  CHECK(world.exits[2] == std::vector<std::string>{"x5"});
}

TEST_CASE("the last 64 KiB are kept; a viewer that takes nothing misses what goes from there", "[control]") {
  JoinWorld world;
  world.room = 0;
  std::string all;
  auto write = [&](std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 1000) {
      std::string piece(1000, static_cast<char>('a' + all.size() / 1000 % 26));
      world.pty().note(piece);
      all += piece;
    }
  };
  write(300'000);
  world.join(1);
  write(1'000'000);
  CHECK(world.records < kTerminalWindow + 1000);
  CHECK(world.pty().kept_from(0).size() == kKept);
  world.room = std::size_t{1} << 30;
  world.execs.on_room({1, 1});
  CHECK(world.output[1] == all.substr(300'000 - kKept, kKept) + all.substr(all.size() - kKept));
  CHECK(world.missed == 1'000'000 - kKept);
}

TEST_CASE("several viewers: each types, and the size is the smallest of theirs", "[control]") {
  for (bool is_shown : {false, true}) {
    JoinWorld world(is_shown);
    world.join(1, 50, 100);
    CHECK(world.size() == (is_shown ? "24x80" : "50x100"));
    world.join(2, 60, 70);
    CHECK(world.size() == (is_shown ? "24x70" : "50x70"));
    CHECK(world.execs.control(1, "size", {{"request", 1}, {"rows", 10}, {"columns", 65535}}));
    CHECK(world.size() == "10x70");
    world.execs.input({1, 1}, "pty", "one");
    CHECK(world.typed(3) == "one");
    world.execs.input({1, 2}, "pty", "two");
    world.execs.input({1, 2}, "stdin", "no");
    CHECK(world.typed(3) == "two");
    world.execs.gone(1);
    CHECK(world.size() == "24x80");
    CHECK(world.runner.running() == 0);
    CHECK(world.task().state() == task::State::running);
  }
}

TEST_CASE("a viewer of what is no terminal, or of no task", "[control]") {
  JoinWorld world;
  world.join(1, 24, 80, 0);
  CHECK(world.exits[1] == std::vector<std::string>{"f126"});
  world.join(2, 24, 80, 2);
  CHECK(world.answers[2].find("no rank 2: the job has 0-1") != std::string::npos);
  for (int rows : {0, -1, 65536}) {
    world.answers.erase(3);
    world.join(3, rows);
    CHECK(world.answers[3].find("rows") != std::string::npos);
  }
  world.execs.join({1, 4}, {{"pty", Json::array()}});
  CHECK_FALSE(world.answers[4].empty());
  world.join(5);
  CHECK_FALSE(world.execs.control(1, "exec-signal", {{"exec", 5}, {"signal", 9}}));
  CHECK_FALSE(world.execs.control(1, "exec-end", {{"exec", 5}}));
  world.begin(6, "true", {{"command", Json::array()}, {"join", true}});  // not by another request
  CHECK(world.host.serve([&] { return world.answers.contains(6); }));
}

TEST_CASE("keys that the task does not take wait, and are bounded by credit", "[control]") {
  JoinWorld world;
  world.join(1);
  CHECK(world.granted == kExecInputWindow);
  std::string keys(kExecInputWindow, 'k');
  world.execs.input({1, 1}, "pty", keys);
  for (int i = 0; i < 20; ++i) world.host.loop().poll();
  CHECK(world.granted < 2 * kExecInputWindow);
  CHECK(world.typed(keys.size()) == keys);
  CHECK(world.host.serve([&] { return world.granted == 2 * kExecInputWindow; }));
}

TEST_CASE("a front end that takes nothing holds up the job's end for two looks at most", "[control]") {
  JoinWorld world;
  world.room = 0;
  world.join(1);
  world.pty().note("unread");
  world.end_task(0);
  bool over = false;
  world.execs.end_all([&] { over = true; });
  CHECK_FALSE(over);
  REQUIRE(world.host.serve([&] { return over; }));
  CHECK(world.answers.empty());
}
