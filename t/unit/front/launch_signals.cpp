// SPDX-License-Identifier: Apache-2.0
#include "front/launch_run.hpp"

#include "catch.hpp"

using nacre::front::LaunchSignals;
using Act = LaunchSignals::Act;

TEST_CASE("before anybody has begun, the first signal that ends programs ends it all") {
  for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    LaunchSignals signals;
    CHECK(signals.on_signal(SIGUSR1, 0, false) == Act::pass);
    CHECK(!signals.ended_by());
    CHECK(signals.on_signal(signum, 0, false) == Act::cancel);
    CHECK(signals.ended_by() == signum);
  }
}

TEST_CASE("a job gets each signal once, and is ended by two of Ctrl-C that come soon") {
  LaunchSignals signals;
  CHECK(signals.on_signal(SIGINT, 100, true) == Act::pass);
  CHECK(signals.on_signal(SIGINT, 103, true) == Act::pass);
  CHECK(!signals.ended_by());
  CHECK(signals.on_signal(SIGINT, 104.9, true) == Act::end);
  CHECK(signals.ended_by() == SIGINT);
  CHECK(signals.on_signal(SIGTERM, 105, true) == Act::pass);
  CHECK(signals.on_signal(SIGINT, 105, true) == Act::kill);
  CHECK(signals.ended_by() == SIGINT);
}

TEST_CASE("SIGTERM twice ends a job, but not where one signal comes twice") {
  LaunchSignals signals;
  CHECK(signals.on_signal(SIGTERM, 10, true) == Act::pass);
  CHECK(signals.on_signal(SIGTERM, 10.01, true) == Act::pass);
  CHECK(signals.on_signal(SIGTERM, 1000, true) == Act::end);
  CHECK(signals.ended_by() == SIGTERM);
}

TEST_CASE("SIGHUP and SIGQUIT twice end a job, too, but not one of each") {
  for (int signum : {SIGHUP, SIGQUIT}) {
    LaunchSignals signals;
    CHECK(signals.on_signal(SIGTERM, 1, true) == Act::pass);
    CHECK(signals.on_signal(signum, 2, true) == Act::pass);
    CHECK(signals.on_signal(signum, 2.01, true) == Act::pass);
    CHECK(signals.on_signal(signum, 3, true) == Act::end);
    CHECK(signals.ended_by() == signum);
  }
}

TEST_CASE("other signals never end a job") {
  LaunchSignals signals;
  for (int i = 0; i < 10; ++i) {
    for (int signum : {SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP}) CHECK(signals.on_signal(signum, i, true) == Act::pass);
  }
  CHECK(!signals.ended_by());
  signals.end_by(SIGHUP);
  signals.end_by(SIGTERM);
  CHECK(signals.ended_by() == SIGHUP);
}

TEST_CASE("a signal that ends programs, but for SIGINT, is known by when it came first") {
  LaunchSignals signals;
  CHECK_FALSE(signals.terminated_since(0));
  signals.on_signal(SIGINT, 1, true);
  signals.on_signal(SIGUSR1, 1, true);
  CHECK_FALSE(signals.terminated_since(0));
  signals.on_signal(SIGHUP, 5, true);
  signals.on_signal(SIGHUP, 5.05, true);
  CHECK(signals.terminated_since(5) == SIGHUP);
  CHECK_FALSE(signals.terminated_since(5.01));
}

TEST_CASE("Ctrl-Z soon after Ctrl-C is the wish to leave, but not of a job that is being ended") {
  LaunchSignals signals;
  CHECK(!signals.leaves(99));
  CHECK(signals.on_signal(SIGINT, 100, true) == Act::pass);
  CHECK(signals.leaves(101.9));
  CHECK(!signals.leaves(102));
  CHECK(signals.on_signal(SIGINT, 101, true) == Act::end);
  CHECK(!signals.leaves(101.1));
}
