// SPDX-License-Identifier: Apache-2.0
#include "io/terminal.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/program.hpp"
#include "base/signals.hpp"
#include "io/sink.hpp"

namespace nacre::io {
namespace {

constexpr const char* kGuardName = "nacre-terminal";  // as ps shows it: at most 15 bytes

bool same(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag && a.c_lflag == b.c_lflag &&
         std::equal(std::begin(a.c_cc), std::end(a.c_cc), std::begin(b.c_cc));
}

int set_modes(int fd, const termios& modes) {
  while (::tcsetattr(fd, TCSANOW, &modes) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// The same terminal by a separate description, so that O_NONBLOCK is set for no other process. By /dev/tty if its
// node belongs to another user.
Result<UniqueFd> open_again(int fd, int access) {
  int flags = access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  UniqueFd own = reopen(fd, flags);
  int code = errno;
  if (!own && ::tcgetpgrp(fd) >= 0) own = UniqueFd(::open("/dev/tty", flags));
  if (!own) {
    return system_error(code, "cannot open the terminal again (does it belong to another user?)");
  }
  return own;
}

// ---- the guard -------------------------------------------------------------------

// Runs in a forked child, with all signals blocked, and makes only system calls. It leaves the session, so that the
// terminal's signals do not reach it. It leaves settings alone that another program has changed since.
[[noreturn]] void guard(int terminal, int shell_end, const termios& before, const termios& raw) {
  ::setsid();
  ::prctl(PR_SET_NAME, kGuardName, 0, 0, 0);
  [[maybe_unused]] int moved = ::chdir("/");
  terminal = ::fcntl(terminal, F_DUPFD, 3);
  shell_end = ::fcntl(shell_end, F_DUPFD, 3);
  ::dup2(terminal, 0);
  ::dup2(shell_end, 1);
  close_from(2);
  char byte = 0;
  while (::read(1, &byte, 1) < 0 && errno == EINTR) {
  }
  termios now{};
  if (::tcgetattr(0, &now) == 0 && same(now, raw)) ::tcsetattr(0, TCSANOW, &before);
  ::_exit(0);
}

}  // namespace

bool at_terminal() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1; }

std::optional<winsize> terminal_size() {
  winsize size{};
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0) return size;
  }
  return std::nullopt;
}

std::optional<termios> terminal_modes() {
  termios modes{};
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::tcgetattr(fd, &modes) == 0) return modes;
  }
  return std::nullopt;
}

Result<std::unique_ptr<Terminal>> Terminal::borrow(event::Children* children) {
  termios before{};
  if (::tcgetattr(STDIN_FILENO, &before) < 0) return system_error(errno, "standard input");
  std::unique_ptr<Terminal> terminal(new Terminal(children, before));
  terminal->input_ = TRY(open_again(STDIN_FILENO, O_RDONLY));
  terminal->output_ = TRY(open_again(STDOUT_FILENO, O_WRONLY));
  CHECK_OK(terminal->set_raw());
  CHECK_OK(terminal->start_guard());
  return terminal;
}

Terminal::~Terminal() {
  suspend();
  end_guard();
}

// Output is raw too: the task's own terminal has already changed its newlines to "\r\n", if the task wants that.
Result<void> Terminal::set_raw() {
  termios raw = before_;
  ::cfmakeraw(&raw);
  if (int code = set_modes(STDIN_FILENO, raw); code != 0) {
    return system_error(code, "cannot set up the terminal");
  }
  is_raw_ = true;
  raw_ = raw;
  ::tcgetattr(STDIN_FILENO, &raw_);
  return {};
}

void Terminal::suspend() {
  if (!std::exchange(is_raw_, false)) return;
  termios now{};
  bool ours = ::tcgetattr(STDIN_FILENO, &now) == 0 && same(now, raw_);
  if (!ours && is_in_background(STDIN_FILENO)) return;
  SignalsBlocked blocked{SIGTTOU};  // it would stop this process in the background
  set_modes(STDIN_FILENO, before_);
}

Result<void> Terminal::resume() {
  if (is_in_background(STDIN_FILENO)) return {};
  return set_raw();
}

Result<void> Terminal::start_guard() {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  pid_t pid = -1;
  {
    // The child keeps them blocked: no handler of ours may run in it, and no signal may end it
    SignalsBlocked blocked;
    pid = ::fork();
    if (pid == 0) {
      ::close(pipe.write.get());
      guard(STDIN_FILENO, pipe.read.get(), before_, raw_);
    }
  }
  if (pid < 0) return system_error(errno, "cannot start a process");
  alive_ = std::move(pipe.write);
  guard_ = pid;
  // It is watched, so that it does not count as a process that has outlived a task.
  if (children_ != nullptr) children_->watch(pid, [this](const event::ChildExit&) { guard_ = 0; });
  return {};
}

void Terminal::end_guard() {
  if (guard_ == 0) return;
  if (children_ != nullptr) children_->forget(guard_);
  ::kill(guard_, SIGKILL);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
  guard_ = 0;
}

}  // namespace nacre::io
