// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.hpp"
#include "fake_host.hpp"
#include "plugins/builtins.hpp"
#include "redirected.hpp"

using namespace nacre;
using kit::Redirected;

namespace {

bool same(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag && a.c_lflag == b.c_lflag &&
         std::equal(std::begin(a.c_cc), std::end(a.c_cc), std::begin(b.c_cc));
}

// The shell's terminal, and its user.
struct Screen {
  Screen() {
    int user_fd = -1;
    int shell_fd = -1;
    winsize size{33, 99, 0, 0};
    REQUIRE(::openpty(&user_fd, &shell_fd, nullptr, nullptr, &size) == 0);
    user = UniqueFd(user_fd);
    shell = UniqueFd(shell_fd);
    ::fcntl(user_fd, F_SETFL, O_NONBLOCK);
    termios modes = now();
    modes.c_cc[VERASE] = 7;
    ::tcsetattr(shell_fd, TCSANOW, &modes);
    before = now();
  }

  [[nodiscard]] termios now() const {
    termios modes{};
    REQUIRE(::tcgetattr(shell.get(), &modes) == 0);
    return modes;
  }
  void type(std::string_view text) const {
    REQUIRE(::write(user.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  UniqueFd user;
  UniqueFd shell;
  termios before{};
};

// The plugin; this test plays the tasks.
struct Plugin {
  explicit Plugin(std::uint32_t tasks = 2) : host(tasks) {
    host.stack().push(plugins::make_pty(host));
    host.make_tasks();
  }

  std::string init_error() {
    auto called = host.call("shell.init");
    return called ? "" : called.error().message;
  }

  // Starts task `id`; returns the slave that it gets.
  UniqueFd start(std::size_t id) {
    REQUIRE(host.call_task("task.init", id));
    task::Task& task = *host.tasks()[id];
    UniqueFd slave;
    if (task.pty() != nullptr) slave = UniqueFd(::fcntl(task.pty()->slave(), F_DUPFD_CLOEXEC, 3));
    task.started(1 << 30);
    REQUIRE(host.call_task("task.fork", id));
    return slave;
  }

  // Reads from `fd` until the text is as long as `wanted`, or nothing more can come.
  std::string read(int fd, std::string_view wanted) {
    std::string text;
    run_until([&] {
      char bytes[4096];
      ssize_t got = ::read(fd, bytes, sizeof bytes);
      if (got > 0) text.append(bytes, static_cast<std::size_t>(got));
      return text.size() >= wanted.size() || got == 0 || (got < 0 && errno != EAGAIN);
    });
    return text;
  }

  void run_until(const std::function<bool()>& done) {
    bool late = false;
    auto guard = event::Timer::create(host.loop(), [&] { late = true; });
    guard->start(kit::FakeHost::kTimeout);
    auto tick = event::Timer::create(host.loop(), [] {});
    tick->start(event::Seconds(0.01), event::Seconds(0.01));
    host.loop().run_until([&] { return late || done(); });
    REQUIRE_FALSE(late);
  }

  kit::FakeHost host;
};

bool write_to(const UniqueFd& fd, std::string_view text) {
  return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

void no_blocking(const UniqueFd& fd) { ::fcntl(fd.get(), F_SETFL, O_NONBLOCK); }

}  // namespace

// ---- options ---------------------------------------------------------------------

TEST_CASE("without the option no task has a pty") {
  for (const char* option : {"pty=false", "pty=0", "label-io"}) {
    Plugin plugin;
    REQUIRE(plugin.host.options().set_from_argument(option));
    CHECK(plugin.init_error().empty());
    CHECK_FALSE(plugin.start(0));
    CHECK(plugin.host.tasks()[0]->command().setup.fds.empty());
  }
}

TEST_CASE("ranks say which tasks have one") {
  struct Case {
    const char* option;
    std::string ranks;
    bool captured;
  };
  for (const Case& each : {Case{"pty", "0123", true}, Case{"pty.ranks=all", "0123", true},
                           Case{"pty.ranks=2", "2", true}, Case{"pty.ranks=1-2", "12", true},
                           Case{"pty.ranks=[1,3]", "13", true}, Case{"pty.ranks=[1-3]", "123", true},
                           Case{"pty.capture", "0123", true}, Case{"pty.capture=false", "0123", false}}) {
    Plugin plugin(4);
    REQUIRE(plugin.host.options().set_from_argument(each.option));
    CHECK(plugin.init_error().empty());
    std::string ranks;
    for (std::size_t id = 0; id < 4; ++id) {
      REQUIRE(plugin.host.call_task("task.init", id));
      task::Task& task = *plugin.host.tasks()[id];
      if (task.pty() == nullptr) continue;
      ranks += std::to_string(id);
      CHECK(task.pty()->captured() == each.captured);
      CHECK(task.command().setup.controlling_terminal);
      CHECK(task.command().setup.fds.size() == 3);
    }
    CHECK(ranks == each.ranks);
  }
}

TEST_CASE("interactive alone is task 0's, and not captured; with others it is added to them") {
  struct Case {
    const char* option;
    bool captured1;  // of task 1
    bool second;     // task 1 has a terminal
  };
  for (const Case& each :
       {Case{R"(pty={"interactive": 1})", false, false}, Case{R"(pty={"interactive": 1, "ranks": 1})", false, true},
        Case{R"(pty={"interactive": 1, "ranks": "all", "capture": true})", true, true}}) {
    Plugin plugin;
    REQUIRE(plugin.host.options().set_from_argument(each.option));
    CHECK(plugin.init_error().empty());
    for (std::size_t id : {0, 1}) REQUIRE(plugin.host.call_task("task.init", id));
    REQUIRE(plugin.host.tasks()[0]->pty() != nullptr);
    CHECK_FALSE(plugin.host.tasks()[0]->pty()->captured());  // its stdout is no file
    REQUIRE((plugin.host.tasks()[1]->pty() != nullptr) == each.second);
    if (each.second) CHECK(plugin.host.tasks()[1]->pty()->captured() == each.captured1);
  }
}

TEST_CASE("what is wrong with the option is said") {
  struct Case {
    const char* option;
    const char* error;
  };
  const Case cases[] = {
      {"pty=yes", R"(pty: expected on or off, or {"ranks": IDSET, "capture": BOOL, "interactive": BOOL})"},
      {"pty.rank=1", "pty.rank: unknown key; known: ranks, capture, interactive"},
      {"pty.ranks=-1", R"(pty.ranks: expected an idset of task ranks, a rank, or "all", got -1)"},
      {"pty.ranks=two", R"(pty.ranks: expected an idset of task ranks, a rank, or "all", got "two")"},
      {"pty.ranks=true", R"(pty.ranks: expected an idset of task ranks, a rank, or "all", got true)"},
      {"pty.ranks=[]", R"(pty.ranks: expected an idset of task ranks, a rank, or "all", got an array)"},
      {"pty.ranks=0-2", "pty.ranks: the job has no task 2"},
      {"pty.capture=maybe", "pty.capture: expected on or off"},
      {"pty.interactive=maybe", "pty.interactive: expected on or off"}};
  for (const Case& each : cases) {
    Plugin plugin;
    REQUIRE(plugin.host.options().set_from_argument(each.option));
    CHECK_THAT(plugin.init_error(),
               Catch::Matchers::StartsWith(std::string("plugin 'pty': shell.init: ") + each.error));
  }
}

TEST_CASE("interactive without a terminal is refused before a task starts, with the remedy") {
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Redirected in(STDIN_FILENO, null.get());
  Plugin plugin;
  REQUIRE(plugin.host.options().set_from_argument("pty.interactive"));
  CHECK(plugin.init_error().empty());  // a plan can be printed
  auto called = plugin.host.call("shell.post-init");
  REQUIRE_FALSE(called);
  CHECK(called.error().message ==
        "plugin 'pty': shell.post-init: pty.interactive: standard input or output is not a terminal (start it on "
        "one, or leave it out)");
}

TEST_CASE("task 0 that has come to another shell has a terminal of its own there, and its output is captured") {
  kit::FakeHost host(1);
  host.stack().push(plugins::make_pty(host));
  REQUIRE(host.options().set_from_argument("pty.interactive"));
  REQUIRE(host.call("shell.init"));
  REQUIRE(host.call("shell.post-init"));
  host.make_tasks();
  REQUIRE(host.call_task("task.init", 0));
  REQUIRE(host.tasks()[0]->pty() != nullptr);
  CHECK(host.tasks()[0]->pty()->captured());
  host.tasks()[0]->started(1 << 30);
  CHECK(host.call_task("task.fork", 0));
  CHECK(host.holds.empty());
}

// ---- neither captured nor interactive --------------------------------------------

TEST_CASE("what nobody wants to see is read all the same, so that the task goes on") {
  Plugin plugin;
  REQUIRE(plugin.host.options().set_from_argument("pty.capture=0"));
  CHECK(plugin.init_error().empty());
  UniqueFd slave = plugin.start(1);
  no_blocking(slave);
  std::size_t written = 0;
  plugin.run_until([&] {
    std::string text(1000, 'x');
    if (write_to(slave, text)) written += text.size();
    return written > 300000;
  });
  slave.reset();
  CHECK(plugin.host.run_loop());
  CHECK(plugin.host.holds.empty());
}

TEST_CASE("a task whose output is not to be shown is not captured") {
  Plugin plugin;
  REQUIRE(plugin.host.options().set_from_argument("pty"));
  REQUIRE(plugin.host.options().set_from_argument("output.ranks=0"));
  CHECK(plugin.init_error().empty());
  for (std::size_t id : {0, 1}) REQUIRE(plugin.host.call_task("task.init", id));
  CHECK(plugin.host.tasks()[0]->pty()->captured());
  CHECK_FALSE(plugin.host.tasks()[1]->pty()->captured());
}

// ---- interactive -----------------------------------------------------------------

namespace {

// Task 0 on the terminal `screen`.
struct Joined {
  explicit Joined(const char* option = "pty.interactive")
      : in(STDIN_FILENO, screen.shell.get()), out(STDOUT_FILENO, screen.shell.get()) {
    REQUIRE(plugin.host.options().set_from_argument(option));
    REQUIRE(plugin.init_error().empty());
    REQUIRE(plugin.host.call("shell.post-init"));
  }
  void start() { slave = plugin.start(0); }
  void end() {
    slave.reset();
    plugin.run_until([&] { return plugin.host.holds.empty(); });
  }

  Screen screen;
  Redirected in;
  Redirected out;
  Plugin plugin{1};
  UniqueFd slave;
};

}  // namespace

TEST_CASE("the task's pty has the size and the keys of the shell's terminal") {
  Joined joined;
  joined.start();
  winsize size{};
  REQUIRE(::ioctl(joined.slave.get(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_row == 33);
  CHECK(size.ws_col == 99);
  termios modes{};
  REQUIRE(::tcgetattr(joined.slave.get(), &modes) == 0);
  CHECK(modes.c_cc[VERASE] == 7);
  CHECK((modes.c_lflag & ICANON) != 0);
  CHECK((joined.screen.now().c_lflag & (ICANON | ECHO | ISIG)) == 0);
  CHECK((joined.screen.now().c_oflag & OPOST) == 0);
  CHECK((::fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK) == 0);
  joined.end();
}

TEST_CASE("bytes go both ways as they are, and the terminal is as before at the end") {
  Joined joined;
  joined.start();
  CHECK(joined.plugin.host.holds.at("pty") == 1);
  REQUIRE(write_to(joined.slave, "hello\n"));
  CHECK(joined.plugin.read(joined.screen.user.get(), "hello\r\n") == "hello\r\n");
  joined.screen.type("typed\r");
  no_blocking(joined.slave);
  CHECK(joined.plugin.read(joined.slave.get(), "typed\n") == "typed\n");
  // the echo of the task's terminal
  CHECK(joined.plugin.read(joined.screen.user.get(), "typed\r\n") == "typed\r\n");
  joined.end();
  CHECK(same(joined.screen.now(), joined.screen.before));
  CHECK(joined.plugin.host.run_loop());
  CHECK(joined.plugin.host.children().watched() == 0);
}

TEST_CASE("a terminal that takes nothing stops the task, and all comes out in the end") {
  Joined joined;
  joined.start();
  no_blocking(joined.slave);
  std::string text;
  for (int i = 0; text.size() < 500000; ++i) text += fmt::format("{:09}", i);
  std::size_t written = 0;
  auto write_some = [&] {
    ssize_t taken = ::write(joined.slave.get(), text.data() + written, text.size() - written);
    if (taken > 0) written += static_cast<std::size_t>(taken);
    return taken > 0;
  };
  int idle = 0;  // rounds in which nothing was taken
  joined.plugin.run_until([&] {
    idle = write_some() ? 0 : idle + 1;
    return idle == 20 || written == text.size();
  });
  CHECK(written < 200000);
  std::string shown;
  joined.plugin.run_until([&] {
    char bytes[4096];
    ssize_t got = ::read(joined.screen.user.get(), bytes, sizeof bytes);
    if (got > 0) shown.append(bytes, static_cast<std::size_t>(got));
    if (written < text.size()) write_some();
    return shown.size() == text.size();
  });
  CHECK((shown == text));  // not to be shown: it is long
  joined.end();
}

TEST_CASE("a change of the terminal's size is passed on") {
  Joined joined;
  joined.start();
  winsize size{12, 34, 0, 0};
  REQUIRE(::ioctl(joined.screen.shell.get(), TIOCSWINSZ, &size) == 0);
  ::raise(SIGWINCH);
  joined.plugin.run_until([&] {
    winsize now{};
    ::ioctl(joined.slave.get(), TIOCGWINSZ, &now);
    return now.ws_row == 12 && now.ws_col == 34;
  });
  joined.end();
}

TEST_CASE("a terminal that goes away hangs up the task") {
  Joined joined;
  joined.start();
  joined.screen.user.reset();
  joined.plugin.run_until([&] { return joined.plugin.host.holds.empty(); });
  CHECK(joined.plugin.host.tasks()[0]->pty()->master() == -1);
  char byte = 0;
  CHECK(::read(joined.slave.get(), &byte, 1) <= 0);
  CHECK(joined.plugin.host.run_loop());
}

TEST_CASE("a shell that is destroyed early gives the terminal back") {
  Screen screen;
  Redirected in(STDIN_FILENO, screen.shell.get());
  Redirected out(STDOUT_FILENO, screen.shell.get());
  {
    Plugin plugin{1};
    REQUIRE(plugin.host.options().set_from_argument("pty.interactive"));
    REQUIRE(plugin.init_error().empty());
    UniqueFd slave = plugin.start(0);
    CHECK_FALSE(same(screen.now(), screen.before));
  }
  CHECK(same(screen.now(), screen.before));
}

TEST_CASE("a shell that is stopped lends the terminal out again once it goes on") {
  Joined joined;
  joined.start();
  termios raw = joined.screen.now();
  ::raise(SIGTSTP);
  joined.plugin.run_until([&] { return same(joined.screen.now(), joined.screen.before); });
  ::raise(SIGCONT);
  joined.plugin.run_until([&] { return same(joined.screen.now(), raw); });
  joined.end();
}

TEST_CASE("what is shown goes to a file as well if it is to be captured there") {
  Joined joined(R"(pty={"interactive": true, "capture": true})");
  joined.plugin.host.options().set("output", Json::parse(R"({"stdout": {"type": "file", "path": "x"}})"));
  REQUIRE(joined.plugin.host.call_task("task.init", 0));
  task::Task& task = *joined.plugin.host.tasks()[0];
  REQUIRE(task.pty()->captured());
  UniqueFd reader(::fcntl(task.pty()->master(), F_DUPFD_CLOEXEC, 3));
  no_blocking(reader);
  joined.slave = UniqueFd(::fcntl(task.pty()->slave(), F_DUPFD_CLOEXEC, 3));
  task.started(1 << 30);
  REQUIRE(joined.plugin.host.call_task("task.fork", 0));
  REQUIRE(write_to(joined.slave, "both\n"));
  CHECK(joined.plugin.read(joined.screen.user.get(), "both\r\n") == "both\r\n");
  CHECK(joined.plugin.read(reader.get(), "both\r\n") == "both\r\n");
  joined.end();
  char byte = 0;
  CHECK(::read(reader.get(), &byte, 1) == 0);
}
