// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <thread>

#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"
#include "redirected.hpp"

using namespace nacre;
using kit::Redirected;

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

// This test plays the tasks: their stdin is what the shell gave them.
struct Readers {
  explicit Readers(int standard_input, std::uint32_t tasks = 1)
      : redirection(STDIN_FILENO, standard_input), host(tasks), inputs(tasks) {
    host.stack().push(plugins::make_input(host));
    host.make_tasks();
  }
  ~Readers() { std::signal(SIGPIPE, before); }

  std::string init() {
    Result<int> called = host.call("shell.init");
    for (std::size_t id = 0; called && id < inputs.size(); ++id) called = host.call_task("task.init", id);
    return called ? "" : called.error().message;
  }

  void start() {
    REQUIRE(init().empty());
    for (std::size_t id = 0; id < inputs.size(); ++id) {
      for (const auto& fd : fds(id)) {
        if (fd.target == STDIN_FILENO && fd.source >= 0)
          inputs[id] = UniqueFd(::fcntl(fd.source, F_DUPFD_CLOEXEC, 3));
      }
      REQUIRE(host.call_task("task.fork", id));
    }
    REQUIRE(host.call("shell.start"));
  }

  const std::vector<task::ChildSetup::Fd>& fds(std::size_t id) { return host.tasks()[id]->command().setup.fds; }
  // Whether the task finds its stdin empty.
  bool is_empty(std::size_t id) { return fds(id).size() == 1 && fds(id)[0].source < 0; }

  // Reads in the shell's loop until it has this many bytes, or the input ends.
  std::string read(std::size_t id, std::size_t bytes) {
    std::string text;
    bool ended = false;
    auto watcher = event::Poll::create(host.loop(), inputs[id].get(), [&](int) {
      char buffer[65536];
      ssize_t got = ::read(inputs[id].get(), buffer, std::min(sizeof buffer, bytes - text.size()));
      if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
      ended = got == 0;
    });
    REQUIRE(watcher);
    REQUIRE(watcher->start(event::Poll::kReadable));
    host.loop().run_until([&] { return ended || text.size() == bytes; });
    at_end = ended;
    return text;
  }

  // The bytes that a task gets from a file.
  std::string read_file(std::size_t id) {
    std::string text(4096, '\0');
    ssize_t got = ::read(inputs[id].get(), text.data(), text.size());
    return text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }

  void (*before)(int) = std::signal(SIGPIPE, SIG_IGN);
  Redirected redirection;
  kit::FakeHost host;
  std::vector<UniqueFd> inputs;
  bool at_end = false;
};

UniqueFd file_of(std::string_view text) {
  UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string numbers(std::size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += std::to_string(i) + '\n';
  return text;
}

}  // namespace

// ---- files and pipes -------------------------------------------------------

TEST_CASE("one task inherits a stdin that is no terminal") {
  UniqueFd device(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  UniqueFd file = file_of("text");
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  for (int standard_input : {device.get(), file.get(), pipe.read.get()}) {
    Readers readers(standard_input);
    readers.start();
    CHECK(readers.fds(0).empty());
  }
  CHECK((::fcntl(pipe.read.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("several tasks read a file each by itself, from where the shell's stdin stands") {
  UniqueFd file = file_of("skipped\nread\n");
  ::lseek(file.get(), 8, SEEK_SET);
  Readers readers(file.get(), 2);
  readers.start();
  for (std::size_t id : {0U, 1U}) {
    CHECK(readers.read_file(id) == "read\n");
    CHECK(readers.read_file(id).empty());
  }
  CHECK(::lseek(file.get(), 0, SEEK_CUR) == 8);
}

TEST_CASE("what comes through a pipe goes to all tasks, whole, and ends for all") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  Readers readers(pipe.read.get(), 3);
  readers.start();
  std::string text = numbers(3000000);
  std::thread user([&] {
    std::string_view rest = text;
    while (!rest.empty()) {
      ssize_t written = ::write(pipe.write.get(), rest.data(), rest.size());
      if (written < 0) return;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    pipe.write.reset();
  });
  for (std::size_t id : {0U, 1U, 2U}) {
    CHECK((readers.read(id, text.size()) == text));  // not to be shown: it is long
    CHECK(readers.read(id, 1).empty());
    CHECK(readers.at_end);
  }
  user.join();
  CHECK((::fcntl(pipe.read.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("input.ranks says who reads; the others find their stdin empty") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  REQUIRE(::write(pipe.write.get(), "x\n", 2) == 2);
  pipe.write.reset();
  for (const Json& ranks : {Json("1"), Json(1)}) {
    Readers readers(pipe.read.get(), 3);
    readers.host.options().set("input.ranks", ranks);
    readers.start();
    CHECK(readers.is_empty(0));
    CHECK(readers.fds(1).empty());  // its stdin is inherited, as it is the only reader
    CHECK(readers.is_empty(2));
  }
}

TEST_CASE("input.limit cuts, and says so") {
  for (const auto& [limit, passed] : {std::pair("4", "0123"), std::pair("1k", "0123456789")}) {
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    REQUIRE(::write(pipe.write.get(), "0123456789", 10) == 10);
    pipe.write.reset();
    Readers readers(pipe.read.get(), 1);
    readers.host.options().set("input.limit", limit);
    readers.start();
    CHECK(readers.read(0, 100) == passed);
    CHECK(readers.at_end);
    std::vector<std::string> cut{"warn input: stdin is cut here: input.limit is 4 bytes"};
    CHECK(readers.host.logged == (std::string(limit) == "4" ? cut : std::vector<std::string>()));
  }
}

TEST_CASE("a file by name is opened for each task, by a template too") {
  kit::TemporaryFolder folder;
  const std::string directory = folder.path();
  for (const std::string rank : {"0", "1"}) std::ofstream(folder.path("in." + rank)) << rank;
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const auto& [path, second] : {std::pair("/in.{{task.rank}}", "1"), std::pair("/in.0", "0")}) {
    Readers readers(null.get(), 2);
    readers.host.options().set("input.stdin.path", directory + path);
    readers.start();
    CHECK(readers.read_file(0) == "0");
    CHECK(readers.read_file(1) == second);
    CHECK((::fcntl(readers.inputs[0].get(), F_GETFL) & O_NONBLOCK) == 0);
  }
  std::string fifo = folder.path("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  struct Wrong {
    std::string path;
    std::string error;
  };
  for (const auto& each :
       {Wrong{"/no/file", "/no/file: No such file or directory"}, Wrong{directory, directory + ": Is a directory"},
        Wrong{fifo, fifo + ": a FIFO, which each task would get a part of; give it as nacre-shell's own stdin"},
        Wrong{"in.{{x}}", "there is no tag {{x}}"}}) {
    Readers readers(null.get(), 2);
    readers.host.options().set("input.stdin.path", each.path);
    CHECK(readers.init() == "plugin 'input': task.init: input.stdin.path: " + each.error);
  }
}

TEST_CASE("options that make no sense are errors") {
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  using Options = std::vector<std::pair<std::string, Json>>;
  for (const auto& [options, error] : {
           std::pair(Options{{"input.x", 1}},
                     "input.x: unknown key; known: stdin, ranks, limit, batch-timeout, when-left"),
           std::pair(Options{{"input.stdin.type", "x"}}, "input.stdin.type: expected service or file, got \"x\""),
           std::pair(Options{{"input.stdin.type", "file"}},
                     "input.stdin: the type is file, so `path` has to be given"),
           std::pair(Options{{"input.stdin.type", "service"}, {"input.stdin.path", "x"}},
                     "input.stdin: the type is service, the shell's own stdin, which has no `path`"),
           std::pair(Options{{"input.stdin.path", ""}}, "input.stdin.path: expected a file's name, got \"\""),
           std::pair(Options{{"input.limit", "much"}},
                     "input.limit: expected a number of bytes, such as 4096 or \"10M\", got \"much\""),
       }) {
    Readers readers(null.get(), 1);
    for (const auto& [name, value] : options) readers.host.options().set(name, value);
    CHECK(readers.init() == std::string("plugin 'input': shell.init: ") + error);
  }
}

TEST_CASE("a shell that is not the first leaves its stdin alone") {
  Terminal terminal;
  Redirected redirection(STDIN_FILENO, terminal.shell.get());
  kit::FakeHost host(kit::jobspec_of(2), kit::fake_nodes(2, 1), 1);
  host.stack().push(plugins::make_input(host));
  host.make_tasks();
  REQUIRE(host.call("shell.init"));
  REQUIRE(host.call_task("task.init", 0));
  REQUIRE(host.call_task("task.fork", 0));
  REQUIRE(host.tasks()[0]->command().setup.fds.size() == 1);
  CHECK(host.tasks()[0]->command().setup.fds[0].source < 0);
  CHECK_FALSE(terminal.nonblocking());
}

// ---- a terminal ------------------------------------------------------------

TEST_CASE("what is typed at a terminal goes to the tasks line by line, and ^D ends it") {
  for (std::uint32_t count : {1U, 2U}) {
    Terminal terminal;
    Readers readers(terminal.shell.get(), count);
    readers.start();
    REQUIRE(readers.inputs[0]);
    CHECK((::fcntl(readers.inputs[0].get(), F_GETFL) & O_NONBLOCK) == 0);
    CHECK(::isatty(readers.inputs[0].get()) == 0);
    terminal.type("hello\n");
    for (std::size_t id = 0; id < count; ++id) CHECK(readers.read(id, 6) == "hello\n");
    terminal.type("wor");
    terminal.type("ld\n");
    for (std::size_t id = 0; id < count; ++id) CHECK(readers.read(id, 6) == "world\n");
    CHECK_FALSE(terminal.nonblocking());
    terminal.type("\x04");
    for (std::size_t id = 0; id < count; ++id) {
      CHECK(readers.read(id, 1).empty());
      CHECK(readers.at_end);
    }
    readers.host.loop().run();  // the loop has nothing left to wait for
  }
}

TEST_CASE("more than a task's pipe holds waits until it reads, and nothing is lost") {
  Terminal terminal(true);
  Readers readers(terminal.shell.get());
  readers.start();
  std::string text = numbers(3000000);
  std::thread user([&] {
    std::string_view rest = text;
    while (!rest.empty()) {
      ssize_t written = ::write(terminal.user.get(), rest.data(), rest.size());
      if (written < 0) return;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  });
  CHECK((readers.read(0, text.size()) == text));  // not to be shown: it is long
  user.join();
}

TEST_CASE("a terminal that hangs up is the end of the input") {
  Terminal terminal;
  Readers readers(terminal.shell.get());
  readers.start();
  terminal.type("last\n");
  CHECK(readers.read(0, 5) == "last\n");
  terminal.user.reset();
  CHECK(readers.read(0, 1).empty());
  CHECK(readers.at_end);
  CHECK(readers.host.logged.empty());
}

TEST_CASE("a task that reads no more ends its input, and leaves the job running") {
  Terminal terminal;
  Readers readers(terminal.shell.get());
  readers.start();
  readers.inputs[0].reset();
  terminal.type("to nobody\n");
  readers.host.loop().run();  // until the terminal is watched no more
  terminal.type("not read\n");
  while (terminal.waiting() != 9) std::this_thread::yield();
  readers.host.loop().poll();
  CHECK(terminal.waiting() == 9);
  CHECK(readers.host.exceptions.empty());
  CHECK(readers.host.logged.empty());
}

TEST_CASE("at the end of the job the tasks' input ends, and the terminal is as it was") {
  for (bool nonblocking_before : {false, true}) {
    Terminal terminal;
    int flags = ::fcntl(terminal.shell.get(), F_GETFL);
    if (nonblocking_before) ::fcntl(terminal.shell.get(), F_SETFL, flags | O_NONBLOCK);
    Readers readers(terminal.shell.get());
    readers.start();
    REQUIRE(readers.host.call("shell.finish"));
    CHECK(terminal.nonblocking() == nonblocking_before);
    CHECK(readers.read(0, 1).empty());
    CHECK(readers.at_end);
  }
}
