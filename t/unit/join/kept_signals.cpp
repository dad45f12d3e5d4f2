// SPDX-License-Identifier: Apache-2.0
#include "join/shell_process.hpp"

#include "catch.hpp"

using nacre::join::KeptSignals;
using Numbers = std::vector<int>;

TEST_CASE("signals are kept in their order, each once, at the place of its last") {
  KeptSignals kept;
  for (int signum : {SIGUSR1, SIGUSR2, SIGWINCH, SIGUSR1}) kept.keep(signum);
  CHECK(kept.take() == Numbers{SIGUSR2, SIGWINCH, SIGUSR1});
  CHECK(kept.take().empty());
}

TEST_CASE("SIGCONT takes away what would stop, and the other way round") {
  for (int stop : {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU}) {
    KeptSignals kept;
    for (int signum : {stop, SIGUSR1, SIGCONT}) kept.keep(signum);
    CHECK(kept.take() == Numbers{SIGUSR1, SIGCONT});
    for (int signum : {SIGCONT, SIGUSR1, stop}) kept.keep(signum);
    CHECK(kept.take() == Numbers{SIGUSR1, stop});
  }
  KeptSignals kept;
  for (int signum : {SIGTSTP, SIGTTIN}) kept.keep(signum);
  CHECK(kept.take() == Numbers{SIGTSTP, SIGTTIN});
}
