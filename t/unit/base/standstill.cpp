// SPDX-License-Identifier: Apache-2.0
#include "base/process_stat.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "catch.hpp"

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
