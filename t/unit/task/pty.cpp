// SPDX-License-Identifier: Apache-2.0
#include "task/pty.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "run.hpp"
#include "task/task.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

namespace {

std::unique_ptr<Pty> open_pty() { return Pty::open(winsize{30, 100, 0, 0}).value(); }

// A task on a pty.
struct OnPty {
  Task task;

  explicit OnPty(const std::string& script) : task(7, 0, sh(script)) { task.set_pty(open_pty()); }

  pid_t start(const Spawner::ChildHook& hook = {}) {
    auto spawned = Spawner().spawn(task.command(), hook);
    if (!spawned) FAIL(spawned.error().error.message);
    task.started(spawned->pid);
    return spawned->pid;
  }
  void type(std::string_view text) {
    REQUIRE(::write(task.pty()->master(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  // Reads up to `end`, and with it.
  std::string read_to(std::string_view end) {
    std::string text;
    for (char byte = 0; !text.ends_with(end) && ::read(task.pty()->master(), &byte, 1) == 1;) text += byte;
    return text;
  }
  std::string rest() { return read_all(task.pty()->master()); }
};

}  // namespace

TEST_CASE("a pty has two sides, close-on-exec, and its size") {
  auto pty = open_pty();
  CHECK((::fcntl(pty->master(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(pty->slave(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::isatty(pty->slave()) == 1);
  winsize size{};
  REQUIRE(::ioctl(pty->slave(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_row == 30);
  CHECK(size.ws_col == 100);
  CHECK_FALSE(pty->captured());
  REQUIRE(pty->set_size({5, 6, 0, 0}));
  REQUIRE(::ioctl(pty->slave(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_col == 6);
}

TEST_CASE("what was written before the last slave was closed can be read, then it is the end") {
  auto pty = open_pty();
  REQUIRE(::write(pty->slave(), "last\n", 5) == 5);
  pty->close_slave();
  CHECK(pty->slave() == -1);
  CHECK(read_all(pty->master()) == "last\r\n");
  char byte = 0;
  CHECK(::read(pty->master(), &byte, 1) == -1);
  CHECK(errno == EIO);
}

TEST_CASE("a pty that is split has a reader in the place of its master") {
  auto pty = open_pty();
  int master = pty->master();
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  int reader = pipe.read.get();
  auto user = pty->split(std::move(pipe.read));
  CHECK(user->master() == master);
  CHECK(user->slave() == -1);
  CHECK(pty->master() == reader);
  CHECK(::isatty(pty->slave()) == 1);
}

TEST_CASE("no more descriptors for a pty is an error that names the remedy") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  auto pty = Pty::open({});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(pty);
  CHECK(pty.error().message ==
        "cannot open a pseudo-terminal (raise the limit with ulimit -n): Too many open files");
  CHECK(pty.error().code == EMFILE);
}

TEST_CASE("a task on a pty leads a session whose foreground group is its own") {
  // pid, group, session, terminal, foreground group of proc(5).
  OnPty on(
      "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size; read -r pid x x x group session tty front x <"
      "/proc/$$/stat; [ $tty != 0 ] && echo $pid $group $session $front; : >/dev/tty && echo there");
  bool hooked = GENERATE(false, true);
  Spawner::ChildHook hook;
  if (hooked) hook = [] { return true; };
  std::string pid = std::to_string(on.start(hook));
  CHECK(on.task.pty()->slave() == -1);
  CHECK(on.rest() == "30 100\r\n" + pid + " " + pid + " " + pid + " " + pid + "\r\nthere\r\n");
  CHECK(wait_for(on.task.pid()) == 0);
}

TEST_CASE("a task on a pty leads its session without a process group asked for too, and is signalled as a group") {
  OnPty on("sleep 1000 & echo up; wait");
  on.task.command().setup.new_process_group = false;
  on.start();
  CHECK(on.read_to("up\r\n") == "up\r\n");
  CHECK(on.task.kill(SIGKILL));
  CHECK(on.rest().empty());  // ends when both have gone
  CHECK(WTERMSIG(wait_for(on.task.pid())) == SIGKILL);
}

TEST_CASE("the keys of a terminal act on the task") {
  // Without noflsh the key throws away what is on its way out, and "got" may be.
  OnPty on("stty noflsh; trap 'echo got; exit 3' INT; echo up; while :; do sleep 1000 & wait; done");
  on.start();
  on.read_to("up\r\n");
  on.type("\x03");
  CHECK_THAT(on.rest(), Catch::Matchers::EndsWith("got\r\n"));
  CHECK(WEXITSTATUS(wait_for(on.task.pid())) == 3);
}

TEST_CASE("a task on a pty that is hung up gets SIGHUP") {
  OnPty on("echo up; exec sleep 1000");
  on.start();
  on.read_to("up\r\n");
  on.task.pty()->hang_up();
  CHECK(on.task.pty()->master() == -1);
  CHECK(WTERMSIG(wait_for(on.task.pid())) == SIGHUP);
}

TEST_CASE("a change of the size is told to the task") {
  OnPty on("trap 'stty size; exit' WINCH; echo up; while :; do sleep 1000 & wait; done");
  on.start();
  on.read_to("up\r\n");
  REQUIRE(on.task.pty()->set_size({11, 22, 0, 0}));
  CHECK(on.rest() == "11 22\r\n");
  wait_for(on.task.pid());
}

TEST_CASE("a standard input that is no terminal can control nothing") {
  Command what = sh("true");
  what.setup.controlling_terminal = true;
  what.setup.fds = {{0, -1}};
  Outcome outcome = run(what);
  CHECK(outcome.error ==
        "cannot take its standard input as its controlling terminal: Inappropriate ioctl for device");
  CHECK(outcome.in_child);
  CHECK(outcome.exit_code == 126);
}

TEST_CASE("the slave of a task that fails to start is closed: the master is at its end") {
  OnPty on("true");
  on.task.exited(value::WaitStatus::exited(127), {});
  CHECK(on.rest().empty());
}

TEST_CASE("what was written last is kept for viewers, once that is wanted") {
  auto pty = Pty::open(winsize{24, 80, 0, 0}).value();
  pty->note("before");
  CHECK(pty->written() == 0);
  pty->keep();
  std::string all;
  for (int i = 0; i < 300; ++i) {
    std::string piece(1000, static_cast<char>('a' + i % 26));
    pty->note(piece);
    all += piece;
  }
  CHECK(pty->written() == all.size());
  CHECK(pty->kept_from(0) == std::string_view(all).substr(all.size() - Pty::kKept));
  CHECK(pty->kept_from(all.size() - 5) == std::string_view(all).substr(all.size() - 5));
  CHECK(pty->kept_from(all.size()).empty());
  CHECK(pty->kept_from(all.size() + 1).empty());
}

TEST_CASE("viewers are called, and may go meanwhile; the size is the smallest of theirs") {
  auto pty = Pty::open(winsize{24, 80, 0, 0}).value();
  auto size = [&] {
    winsize now{};
    REQUIRE(::ioctl(pty->slave(), TIOCGWINSZ, &now) == 0);
    return std::pair<int, int>(now.ws_row, now.ws_col);
  };
  using Size = std::pair<int, int>;
  pty->keep();
  int calls = 0;
  std::uint64_t first = 0, second = 0;
  first = pty->add_viewer({50, 60, 0, 0}, [&] {
    ++calls;
    pty->remove_viewer(first);
    pty->remove_viewer(second);
  });
  CHECK(size() == Size{50, 60});
  second = pty->add_viewer({40, 0, 0, 0}, [&] { ++calls; });
  CHECK(size() == Size{40, 60});
  pty->resize_viewer(first, {30, 200, 0, 0});
  CHECK(size() == Size{30, 200});
  REQUIRE(pty->set_size({35, 100, 0, 0}, true));  // it is also shown elsewhere
  CHECK(size() == Size{30, 100});
  pty->note("x");
  CHECK(calls == 1);
  CHECK(size() == Size{35, 100});
  std::uint64_t third = pty->add_viewer({1, 1, 0, 0}, [&] { ++calls; });
  pty->hang_up();
  pty->note_end();
  CHECK(calls == 2);
  CHECK(pty->ended());
  pty->remove_viewer(third);
}

TEST_CASE("viewers of a pty that was split belong to the side with the master") {
  auto pty = Pty::open(winsize{24, 80, 0, 0}).value();
  CHECK(&pty->viewed() == pty.get());
  auto pipe = make_pipe(O_CLOEXEC).value();
  auto split = pty->split(std::move(pipe.read));
  CHECK(&pty->viewed() == split.get());
}
