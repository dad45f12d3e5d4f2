// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <thread>

#include <catch2/catch.hpp>

#include "base/unique_fd.hpp"
#include "builtins.hpp"
#include "fake_host.hpp"
#include "redirection.hpp"

using namespace nacre;
using kit::Redirection;

namespace {

struct Terminal {
  explicit Terminal(bool raw = false) {
    int user_fd = -1;
    int shell_fd = -1;
    REQUIRE(::openpty(&user_fd, &shell_fd, nullptr, nullptr, nullptr) == 0);
    user = UniqueFd(user_fd);
    shell = UniqueFd(shell_fd);
    termios settings{};
    REQUIRE(::tcgetattr(shell_fd, &settings) == 0);
    if (raw) ::cfmakeraw(&settings);
    settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    REQUIRE(::tcsetattr(shell_fd, TCSANOW, &settings) == 0);
  }

  void type(std::string_view text) const {
    REQUIRE(::write(user.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  [[nodiscard]] bool nonblocking() const { return (::fcntl(shell.get(), F_GETFL) & O_NONBLOCK) != 0; }

  // Bytes that the shell has not read yet.
  [[nodiscard]] int waiting() const {
    int bytes = -1;
    REQUIRE(::ioctl(shell.get(), FIONREAD, &bytes) == 0);
    return bytes;
  }

  UniqueFd user;   // what the user types
  UniqueFd shell;  // the shell's stdin
};

// Task 0 that is this test: its stdin is what the shell gave it.
struct Reader {
  explicit Reader(int standard_input) : redirection(STDIN_FILENO, standard_input) {
    host.stack().push(plugins::make_input(host));
    host.make_tasks();
  }
  ~Reader() { std::signal(SIGPIPE, before); }

  void start() {
    REQUIRE(host.call_task("task.init", 0));
    for (const auto& fd : host.tasks()[0]->command().setup.fds) {
      if (fd.target == STDIN_FILENO) input = UniqueFd(::fcntl(fd.source, F_DUPFD_CLOEXEC, 3));
    }
    REQUIRE(host.call_task("task.fork", 0));
  }

  // So that the shell cannot write to it. By another descriptor of the same pipe.
  void fill_pipe() const {
    std::string path = "/proc/self/fd/" + std::to_string(input.get());
    UniqueFd writer(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    REQUIRE(writer);
    while (::write(writer.get(), "#", 1) == 1) continue;
    REQUIRE(errno == EAGAIN);
  }

  // Reads in the shell's loop until there are so many bytes, or the input ends.
  std::string read(std::size_t bytes) {
    std::string text;
    bool ended = false;
    auto watcher = event::Poll::create(host.loop(), input.get(), [&](int) {
      char buffer[65536];
      ssize_t got = ::read(input.get(), buffer, std::min(sizeof buffer, bytes - text.size()));
      if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
      ended = got == 0;
    });
    REQUIRE(watcher);
    REQUIRE(watcher->start(event::Poll::kReadable));
    host.loop().run_until([&] { return ended || text.size() == bytes; });
    at_end = ended;
    return text;
  }

  void (*before)(int) = std::signal(SIGPIPE, SIG_IGN);
  Redirection redirection;
  kit::FakeHost host{2};
  UniqueFd input;
  bool at_end = false;
};

}  // namespace

// ---- files and pipes -------------------------------------------------------

TEST_CASE("task 0 inherits a stdin that is no terminal, and the others find theirs empty") {
  UniqueFd file(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  for (int standard_input : {file.get(), pipe.read.get()}) {
    Reader reader(standard_input);
    reader.start();
    CHECK(reader.host.tasks()[0]->command().setup.fds.empty());
    REQUIRE(reader.host.call_task("task.init", 1));
    REQUIRE(reader.host.call_task("task.fork", 1));
    const auto& fds = reader.host.tasks()[1]->command().setup.fds;
    REQUIRE(fds.size() == 1);
    CHECK(fds[0].target == STDIN_FILENO);
    CHECK(fds[0].source < 0);
  }
  CHECK((::fcntl(pipe.read.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("a shell without task 0 leaves its stdin alone") {
  Terminal terminal;
  Redirection redirection(STDIN_FILENO, terminal.shell.get());
  kit::FakeHost host(R"({"version": 1,
    "resources": [{"type": "node", "count": 2, "with": [
      {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}]}],
    "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}], "attributes": null})",
                     R"({"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0"}}],
    "nodelist": ["fake[0-1]"], "starttime": 0, "expiration": 0}})",
                     1);
  host.stack().push(plugins::make_input(host));
  host.make_tasks();
  REQUIRE(host.call_task("task.init", 0));
  REQUIRE(host.call_task("task.fork", 0));
  REQUIRE(host.tasks()[0]->command().setup.fds.size() == 1);
  CHECK(host.tasks()[0]->command().setup.fds[0].source < 0);
  CHECK_FALSE(terminal.nonblocking());
}

// ---- a terminal ------------------------------------------------------------

TEST_CASE("what is typed at a terminal goes to task 0 line by line, and ^D ends it") {
  Terminal terminal;
  Reader reader(terminal.shell.get());
  reader.start();
  REQUIRE(reader.input);
  CHECK((::fcntl(reader.input.get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK(::isatty(reader.input.get()) == 0);
  terminal.type("hello\n");
  CHECK(reader.read(6) == "hello\n");
  terminal.type("wor");
  terminal.type("ld\n");
  CHECK(reader.read(6) == "world\n");
  CHECK(terminal.nonblocking());
  terminal.type("\x04");
  CHECK(reader.read(1).empty());
  CHECK(reader.at_end);
  CHECK_FALSE(terminal.nonblocking());
  reader.host.loop().run();  // nothing is waited for any more
}

TEST_CASE("the others find theirs empty, at a terminal too") {
  Terminal terminal;
  Reader reader(terminal.shell.get());
  REQUIRE(reader.host.call_task("task.init", 1));
  REQUIRE(reader.host.call_task("task.fork", 1));
  REQUIRE(reader.host.tasks()[1]->command().setup.fds.size() == 1);
  CHECK(reader.host.tasks()[1]->command().setup.fds[0].source < 0);
  CHECK_FALSE(terminal.nonblocking());
}

TEST_CASE("more than the task's pipe holds waits until it reads, and nothing is lost") {
  Terminal terminal(true);
  Reader reader(terminal.shell.get());
  reader.start();
  REQUIRE(::fcntl(reader.input.get(), F_SETPIPE_SZ, 4096) > 0);
  std::string text;
  for (int i = 0; text.size() < 300000; ++i) text += std::to_string(i) + '\n';
  std::thread user([&] {
    std::string_view rest = text;
    while (!rest.empty()) {
      ssize_t written = ::write(terminal.user.get(), rest.data(), rest.size());
      if (written < 0) return;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  });
  CHECK((reader.read(text.size()) == text));  // not to be shown: it is long
  user.join();
}

TEST_CASE("a terminal that hangs up is the end of the input") {
  Terminal terminal;
  Reader reader(terminal.shell.get());
  reader.start();
  terminal.type("last\n");
  CHECK(reader.read(5) == "last\n");
  terminal.user.reset();
  CHECK(reader.read(1).empty());
  CHECK(reader.at_end);
}

TEST_CASE("a task that reads no more leaves the terminal alone, and the job running") {
  Terminal terminal;
  Reader reader(terminal.shell.get());
  reader.start();
  reader.input.reset();
  CHECK(terminal.nonblocking());
  terminal.type("to nobody\n");
  reader.host.loop().run();  // until the terminal is watched no more
  CHECK_FALSE(terminal.nonblocking());
  CHECK(reader.host.exceptions.empty());
  CHECK(reader.host.logged.empty());
}

TEST_CASE("a task that goes away while input waits for it ends the input") {
  Terminal terminal(true);
  Reader reader(terminal.shell.get());
  reader.start();
  reader.fill_pipe();
  terminal.type("waits");
  while (terminal.waiting() != 5) std::this_thread::yield();
  reader.host.loop().run_until([&] { return terminal.waiting() == 0; });
  // Watched is only the pipe now, which takes nothing.
  terminal.type("is not read");
  while (terminal.waiting() != 11) std::this_thread::yield();
  reader.host.loop().poll();
  CHECK(terminal.waiting() == 11);
  reader.input.reset();
  reader.host.loop().run();
  CHECK_FALSE(terminal.nonblocking());
  CHECK(terminal.waiting() == 11);
}

TEST_CASE("at the end of the job the terminal is as it was, and the task's input ends") {
  for (bool nonblocking_before : {false, true}) {
    Terminal terminal;
    int flags = ::fcntl(terminal.shell.get(), F_GETFL);
    if (nonblocking_before) ::fcntl(terminal.shell.get(), F_SETFL, flags | O_NONBLOCK);
    Reader reader(terminal.shell.get());
    reader.start();
    CHECK(terminal.nonblocking());
    REQUIRE(reader.host.call("shell.finish"));
    CHECK(terminal.nonblocking() == nonblocking_before);
    CHECK(reader.read(1).empty());
    CHECK(reader.at_end);
  }
}

TEST_CASE("a shell that is destroyed early gives the terminal back too") {
  Terminal terminal;
  {
    Reader reader(terminal.shell.get());
    reader.start();
    CHECK(terminal.nonblocking());
  }
  CHECK_FALSE(terminal.nonblocking());
}
