// SPDX-License-Identifier: Apache-2.0
#include "base/process_stat.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"

#include "base/file.hpp"

using nacre::ProcessStat;

TEST_CASE("the fields of /proc/PID/stat are counted from behind the name, which may be anything") {
  auto stat = ProcessStat::parse(
      "7 (a (b) R 9) S 3 7 7 0 -1 4194304 90 80 0 0 11 12 13 14 20 0 5 0 4711 8000 21 18446744073709551615\n");
  REQUIRE(stat);
  CHECK(stat->name == "a (b) R 9");
  CHECK(stat->state == 'S');
  CHECK(stat->parent == 3);
  CHECK(stat->own_ticks() == 23);
  CHECK(stat->children_ticks() == 27);
  CHECK(stat->threads == 5);
  CHECK(stat->start == 4711);
  CHECK(stat->pages == 21);
}

TEST_CASE("what is no /proc/PID/stat is none") {
  for (const char* text : {"", "7", "7 (a", "7 (a)", "7 (a) ", "7 (a) S 1", ") S ( 1",
                           "7 (a) S 3 7 7 0 -1 4194304 90 80 0 0 11 12 13 14 20 0 5 0 4711 8000"}) {
    CAPTURE(text);
    CHECK_FALSE(ProcessStat::parse(text));
  }
}

TEST_CASE("the stat of a process of this host") {
  auto own = ProcessStat::of(::getpid());
  REQUIRE(own);
  CHECK(own->state == 'R');
  CHECK(own->parent == ::getppid());
  CHECK(own->threads >= 1);
  CHECK_FALSE(ProcessStat::of(0));
}

using namespace nacre;

namespace {

// Runs `check` in a child, and returns its result.
int in_child(const std::function<int()>& check) {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(check());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int access_of(int fd) { return ::fcntl(fd, F_GETFL) & O_ACCMODE; }

// 0, or the number of the check that failed.
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

using nacre::process_state;
using nacre::Standstill;

TEST_CASE("a process that runs is not reported") {
  Standstill still;
  for (double now = 0; now < 100; now += 2) CHECK(!still.update(now < 50 ? 'S' : 'R', now));
  CHECK(!still.update(std::nullopt, 100));
}

TEST_CASE("one that stands still is reported after a while, rarely, and when it goes on") {
  Standstill still;
  CHECK(!still.update('S', 100));
  CHECK(!still.update('T', 102));
  CHECK(!still.update('T', 111.9));
  CHECK(still.update('T', 112) == "has been stopped by a signal for 10 s");
  CHECK(!still.update('T', 711.9));
  CHECK(still.update('D', 712) == "has waited in the kernel, as for a file system that does not answer, for 610 s");
  CHECK(still.update('S', 722) == "goes on, after 620 s");
  CHECK(!still.update('S', 724));
}

TEST_CASE("one that stands still for a moment, again and again, is not") {
  Standstill still;
  for (int i = 0; i < 100; ++i) CHECK(!still.update(i % 4 == 3 ? 'S' : 'D', i * 2.0));
}

TEST_CASE("the state of a process") {
  CHECK(process_state(::getpid()) == 'R');
  pid_t pid = ::fork();
  if (pid == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, WUNTRACED);
  CHECK(process_state(pid) == 'T');
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  CHECK(!process_state(pid));
}
