// SPDX-License-Identifier: Apache-2.0
#include "base/process_stat.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>

#include "catch.hpp"

#include "base/file.hpp"

using namespace nacre;

namespace {

// What `check` returns in a process of its own.
int in_child(const std::function<int()>& check) {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(check());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int access_of(int fd) { return ::fcntl(fd, F_GETFL) & O_ACCMODE; }

// 0, or the number of what is not as it should be.
int after_closing(unsigned closed) {
  int zero = ::open("/dev/zero", O_RDWR);
  for (int fd : {0, 1, 2}) ::dup2(zero, fd);
  if (zero > STDERR_FILENO) ::close(zero);
  for (int fd : {0, 1, 2}) {
    if ((closed >> fd & 1U) != 0) ::close(fd);
  }
  if (!open_closed_streams()) return 1;
  for (int fd : {0, 1, 2}) {
    if (is_null(fd) != ((closed >> fd & 1U) != 0)) return 3;
    if (::fcntl(fd, F_GETFD) != 0) return 4;  // not close-on-exec
  }
  int next = ::open("/dev/null", O_RDONLY);
  if (next <= STDERR_FILENO) return 5;
  if ((closed & 1U) != 0 && access_of(0) != O_RDONLY) return 6;
  if ((closed & 2U) != 0 && (::write(1, "x", 1) >= 0 || errno != EBADF)) return 7;
  if (is_writable(1) == ((closed & 2U) != 0)) return 9;
  if ((closed & 4U) != 0 && ::write(2, "x", 1) != 1) return 8;
  return 0;
}

}  // namespace

TEST_CASE("what is closed of the standard streams becomes /dev/null, and the rest stays") {
  for (unsigned closed = 0; closed < 8; ++closed) {
    CAPTURE(closed);
    CHECK(in_child([closed] { return after_closing(closed); }) == 0);
  }
}

TEST_CASE("no signal stays blocked, and none that a program relies on stays ignored") {
  CHECK(in_child([] {
          sigset_t all;
          ::sigfillset(&all);
          ::sigprocmask(SIG_SETMASK, &all, nullptr);
          for (int signum = 1; signum < NSIG; ++signum) std::signal(signum, SIG_IGN);
          reset_signals();
          sigset_t blocked;
          ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
          for (int signum = 1; signum < NSIG; ++signum) {
            if (::sigismember(&blocked, signum) == 1) return 1;
          }
          for (int signum : {SIGCHLD, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGPIPE, SIGXFSZ, SIGXCPU}) {
            if (ignores_signal(signum)) return signum;
          }
          for (int signum : {SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU}) {
            if (!ignores_signal(signum)) return 100 + signum;
          }
          return 0;
        }) == 0);
}
