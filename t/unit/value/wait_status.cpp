// SPDX-License-Identifier: Apache-2.0
#include "value/wait_status.hpp"

#include "catch.hpp"

using nacre::value::signal_name;
using nacre::value::signal_number;
using nacre::value::WaitStatus;

TEST_CASE("an exit keeps its code") {
  CHECK(WaitStatus() == WaitStatus::exited(0));
  CHECK(WaitStatus().success());
  CHECK(WaitStatus().str() == "exited with code 0");
  auto status = WaitStatus::exited(3);
  CHECK(status.raw() == 0x0300);
  CHECK(status.is_exit());
  CHECK_FALSE(status.is_signal());
  CHECK(status.exit_code() == 3);
  CHECK(status.signal() == 0);
  CHECK(status.job_code() == 3);
  CHECK_FALSE(status.success());
  CHECK(status.str() == "exited with code 3");
  CHECK(WaitStatus::exited(255).job_code() == 255);
  CHECK(WaitStatus::exited(127) != WaitStatus::exited(126));
}

TEST_CASE("a death by signal counts as 128 + signal") {
  auto status = WaitStatus::killed(SIGKILL);
  CHECK(status.raw() == 9);
  CHECK(status.is_signal());
  CHECK_FALSE(status.is_exit());
  CHECK(status.exit_code() == 0);
  CHECK(status.signal() == 9);
  CHECK(status.job_code() == 137);
  CHECK_FALSE(status.success());
  CHECK_FALSE(status.dumped_core());
  CHECK(status.str() == "killed by SIGKILL");
  auto core = WaitStatus::of_raw(0x80 | SIGSEGV);
  CHECK(core.dumped_core());
  CHECK(core.job_code() == 139);
  CHECK(core.str() == "killed by SIGSEGV (core dumped)");
  CHECK(WaitStatus::killed(64).str() == "killed by SIGRTMIN+30");
}

TEST_CASE("a stopped process is neither exited nor killed") {
  auto stopped = WaitStatus::of_raw(0x137f);
  CHECK_FALSE(stopped.is_exit());
  CHECK_FALSE(stopped.is_signal());
  CHECK(stopped.str() == "has not ended (wait status 0x137f)");
}

TEST_CASE("all Linux signals have their names") {
  const char* const names[] = {"HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",  "FPE",
                               "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM", "STKFLT",
                               "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",  "XCPU",
                               "XFSZ", "VTALRM", "PROF", "WINCH", "IO",   "PWR",  "SYS"};
  int signum = 0;
  for (const char* name : names) {
    ++signum;
    CHECK(signal_name(signum) == std::string("SIG") + name);
    CHECK(signal_number(name) == signum);
    CHECK(signal_number(std::string("SIG") + name) == signum);
    CHECK(signal_number(std::to_string(signum)) == signum);
  }
  CHECK(signum == 31);
  CHECK(signal_number("sigterm") == 15);
  CHECK(signal_number("Term") == 15);
  CHECK(signal_number("IOT") == SIGABRT);
  CHECK(signal_number("SIGPOLL") == SIGIO);
  CHECK(signal_number("CLD") == SIGCHLD);
}

TEST_CASE("real-time signals count from SIGRTMIN") {
  CHECK(signal_name(SIGRTMIN) == "SIGRTMIN");
  CHECK(signal_name(SIGRTMIN + 1) == "SIGRTMIN+1");
  CHECK(signal_name(SIGRTMAX) == "SIGRTMIN+30");
  for (int signum = SIGRTMIN; signum <= SIGRTMAX; ++signum) CHECK(signal_number(signal_name(signum)) == signum);
  CHECK(signal_number("RTMIN+3") == SIGRTMIN + 3);
  CHECK(signal_number("SIGRTMAX") == SIGRTMAX);
  CHECK(signal_number("rtmax-2") == SIGRTMAX - 2);
  CHECK(signal_number("RTMAX-30") == SIGRTMIN);
  for (const char* bad : {"RTMIN+31", "RTMIN-1", "RTMIN+", "RTMIN+x", "RTMAX+1", "RTMAX-31", "RTMIN3",
                          "RTMIN+99999999999999999999"}) {
    INFO(bad);
    CHECK(signal_number(bad) == 0);
  }
}

TEST_CASE("what is no signal has no number, and an unknown number no name") {
  for (const char* bad :
       {"", "0", "65", "-9", "99", "SIG", "SIGFOO", "TERM ", "SIGSIGTERM", "18446744073709551617"}) {
    INFO(bad);
    CHECK(signal_number(bad) == 0);
  }
  CHECK(signal_name(99) == "signal 99");
  CHECK(signal_name(0) == "signal 0");
  CHECK(signal_name(-1) == "signal -1");
  CHECK(signal_name(32) == "signal 32");
}
