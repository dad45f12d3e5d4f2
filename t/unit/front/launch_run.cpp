// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "front/launch_run.hpp"

using nacre::front::labels_lines;
using nacre::front::LaunchSignals;
using nacre::front::SrunErrors;

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

namespace {

// The line is kept, or passed on.
bool keeps(const std::string& line) {
  SrunErrors errors;
  errors.keep();
  std::string passed = errors.take(line);
  CHECK(passed + errors.kept() + errors.rest() == line);
  return errors.kept() == line;
}

}  // namespace

TEST_CASE("srun's lines about tasks that have ended are known, and kept back") {
  for (const char* line :
       {"srun: error: node2: task 2: Exited with exit code 13\n", "srun: error: node[2-4]: tasks 0,2-3: Killed\n",
        "srun: error: n2.site.org: task 12: Segmentation fault (core dumped)\n"}) {
    CAPTURE(line);
    CHECK(keeps(line));
  }
  for (const char* line :
       {"srun: error: node2: task 2: Exited with exit code 13", "srun: error: : task 2: Killed\n",
        "srun: error: Unable to confirm allocation for job 7: Invalid job id specified\n", "srun: error: \n", "\n",
        "srun: error: node2: task : Killed\n", "srun: error: node2: task 2\n",
        "srun: error: no host: task 2: Killed\n", "slurmstepd: error: execve(): /bin/x: Permission denied\n",
        "srun: job 12 queued and waiting for resources\n", "0: srun: error: node2: task 2: Killed\n"}) {
    CAPTURE(line);
    CHECK_FALSE(keeps(line));
  }
}

TEST_CASE("srun's lines tell which shells have ended") {
  SrunErrors errors;
  std::string first = "srun: error: n0: task 0: Killed\n";
  CHECK(errors.take(first) == first);  // keep() was not called
  CHECK(errors.ended().str() == "0");
  errors.keep();
  CHECK(errors.take(
            "srun: error: node2: task 2: Killed\nx\nsrun: error: n[1,3]: tasks 1,4-5: Exited with exit code 1\n") ==
        "x\n");
  CHECK(errors.ended().str() == "0-2,4-5");
}

TEST_CASE("srun reports the signal that has ended a shell by name, or by the shell's exit code") {
  for (auto [how, signum] : {std::pair{"Interrupt", SIGINT},
                             {"Terminated", SIGTERM},
                             {"Hangup", SIGHUP},
                             {"Quit (core dumped)", SIGQUIT},
                             {"Exited with exit code 143", SIGTERM},
                             {"Killed", 0},
                             {"Exited with exit code 1", 0},
                             {"Exited with exit code 137", 0},
                             {"Exited with exit code 1300", 0}}) {
    CAPTURE(how);
    SrunErrors errors;
    errors.keep();
    CHECK(errors.take(fmt::format("srun: error: node2: task 2: {}\n", how)).empty());
    CHECK(errors.signal().value_or(0) == signum);
  }
  SrunErrors errors;
  errors.keep();
  CHECK(errors.take("srun: error: node2: task 2: Interrupt\nsrun: error: node[0-1]: tasks 0-1: Terminated\n")
            .empty());
  CHECK(errors.signal() == SIGINT);
}

TEST_CASE("srun's lines come in any pieces, among others, which are passed on at once") {
  std::string text = "a line\nsrun: error: node2: task 2: Killed\nanother";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CAPTURE(cut);
    SrunErrors errors;
    errors.keep();
    std::string passed = errors.take(text.substr(0, cut));
    if (cut <= 7) CHECK(passed == text.substr(0, cut));
    passed += errors.take(text.substr(cut));
    CHECK(passed == "a line\nanother");
    CHECK(errors.kept() == "srun: error: node2: task 2: Killed\n");
    CHECK(errors.ended().str() == "2");
  }
}

TEST_CASE("a long line of srun is passed on") {
  SrunErrors errors;
  errors.keep();
  std::string begin = "srun: error: node2: task 2: ";
  std::string passed = errors.take(begin);
  for (int each = 0; each < 100; ++each) passed += errors.take(std::string(SrunErrors::kMaxLine, 'x'));
  passed += errors.take("\n");
  CHECK(passed == begin + std::string(100 * SrunErrors::kMaxLine, 'x') + "\n");
  CHECK(errors.kept().empty());
  for (int each = 0; each < 20'000; ++each) static_cast<void>(errors.take("srun: error: node2: task 2: Killed\n"));
  CHECK(errors.kept().size() <= SrunErrors::kMaxKept);
}

TEST_CASE("once this process ends the step all that srun and slurmstepd say is kept back") {
  SrunErrors errors;
  std::string words = "srun: forcing job termination\nslurmstepd: error: *** STEP 7.0 ON n0 CANCELLED AT X ***\n";
  CHECK(errors.take(words) == words);
  errors.ends_step();
  CHECK(errors.take(words + "sl\nof a task\n") == "sl\nof a task\n");
  CHECK(errors.kept() == words);
}

TEST_CASE("srun labels lines if it is asked to") {
  CHECK_FALSE(labels_lines({"--partition=p", "-N4"}));
  CHECK(labels_lines({"--partition=p", "-l"}));
  CHECK(labels_lines({"--label"}));
  CHECK(labels_lines({"--lab"}));
  CHECK(labels_lines({"-vul"}));
  for (const char* other : {"--l", "--licenses=a", "--labels", "-pl", "-Jall", "-"})
    CHECK_FALSE(labels_lines({other}));
}
