// SPDX-License-Identifier: Apache-2.0
#include "base/process_start.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include <fmt/format.h>

namespace nacre {
namespace {

// SIGPIPE and SIGXFSZ are included, as libraries of other languages ignore them for themselves only.
constexpr int kByDefault[] = {SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2, SIGALRM,  SIGCONT, SIGPIPE,
                              SIGXFSZ, SIGXCPU, SIGURG,  SIGABRT, SIGWINCH, SIGIO,   SIGVTALRM};
constexpr const char* kNames[] = {"input", "output", "error"};

}  // namespace

Result<void> open_closed_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    int opened = ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);  // it gets the lowest free number
    if (opened == fd) continue;
    return system_error(errno, fmt::format("standard {} is closed, and for its place /dev/null", kNames[fd]));
  }
  return {};
}

bool is_writable(int fd) {
  int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signum : kByDefault) ::sigaction(signum, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool ignores_signal(int signum) {
  struct sigaction action {};
  return ::sigaction(signum, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace nacre
