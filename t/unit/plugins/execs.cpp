// SPDX-License-Identifier: Apache-2.0
//
// Commands beside the tasks: the leader's side and a shell's together, on a FakeHost of one shell. The front end is
// the test, which gives room for output, and sees what comes.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/control/execs.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT

namespace {

struct ExecWorld {
  explicit ExecWorld(std::uint32_t tasks = 4, const char* kill_timeout = "0.1s") : host(tasks) {
    REQUIRE(host.options().set_from_argument(std::string("kill-timeout=") + kill_timeout));
    host.environment().set("PATH", "/usr/bin:/bin");
    host.make_tasks();
    REQUIRE(runner.serve([this](std::string_view record) -> Result<bool> {
      records += record.size();
      execs.take(0, record);
      return true;
    }));
  }
  ExecWorld(const ExecWorld&) = delete;
  ExecWorld& operator=(const ExecWorld&) = delete;

  plugins::Execs::Replies replies() {
    plugins::Execs::Replies out;
    out.part = [this](plugins::Execs::Key key, const Json& part) {
      if (part.contains("missed")) missed += part.at("missed").at("bytes").get<std::size_t>();
      if (!part.contains("exits")) return;
      for (const Json& each : part.at("exits")) exits[key.id].push_back(each.at("record").get<std::string>());
    };
    out.answer = [this](plugins::Execs::Key key, const Result<Json>& answer) {
      CHECK(answers.emplace(key.id, answer ? "" : answer.error().message).second);
    };
    out.room = [this](plugins::Execs::Key) { return room; };
    out.put = [this](plugins::Execs::Key key, const char* stream, std::string_view data, const Json&) {
      if (room < std::max<std::size_t>(data.size(), 1)) return false;
      room -= data.size();
      streams.insert(stream);
      output[key.id] += stream != std::string("stderr") ? std::string(data) : "!" + std::string(data);
      return true;
    };
    out.grant = [this](plugins::Execs::Key, std::size_t bytes) { granted += bytes; };
    return out;
  }
  void begin(std::uint64_t id, const char* script, Json more = Json::object()) {
    more["command"] = {"sh", "-c", script};
    execs.begin({1, id}, more);
  }
  bool answered(std::uint64_t id) {
    return host.serve([&] { return answers.contains(id); });
  }

  std::size_t room = std::size_t{1} << 30;
  std::size_t granted = 0;
  std::size_t missed = 0;                                // bytes
  std::size_t records = 0;                               // bytes
  std::map<std::uint64_t, std::string> output, answers;  // by request
  std::map<std::uint64_t, std::vector<std::string>> exits;
  std::set<std::string> streams;  // on which output has come
  kit::FakeHost host;
  plugins::ExecRunner runner{host};
  plugins::Execs execs{host, replies(), [this](std::string_view record) { return runner.feed(record), true; }};
};

}  // namespace

// Commands beside the tasks: the leader's side and a shell's together, on a FakeHost, with a front end that is the
// test.

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

// Commands beside the tasks on a terminal of their own, on a FakeHost, with a front end that is the test.

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

// Viewers of tasks' terminals, on a FakeHost: the test is the task, the plugin that reads its terminal, and the
// front ends.

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
