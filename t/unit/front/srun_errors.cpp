// SPDX-License-Identifier: Apache-2.0
#include "front/srun_errors.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>
#include "catch.hpp"

using nacre::front::labels_lines;
using nacre::front::SrunErrors;

TEST_CASE("srun's lines about tasks that have ended are known") {
  for (const char* line :
       {"srun: error: node2: task 2: Exited with exit code 13\n", "srun: error: node[2-4]: tasks 0,2-3: Killed\n",
        "srun: error: n2.site.org: task 12: Segmentation fault (core dumped)\n"}) {
    CAPTURE(line);
    CHECK(SrunErrors().take(line));
  }
  for (const char* line :
       {"srun: error: node2: task 2: Exited with exit code 13", "srun: error: : task 2: Killed\n",
        "srun: error: Unable to confirm allocation for job 7: Invalid job id specified\n", "srun: error: \n", "\n",
        "srun: error: node2: task : Killed\n", "srun: error: node2: task 2\n",
        "srun: error: no host: task 2: Killed\n", "slurmstepd: error: execve(): /bin/x: Permission denied\n",
        "0: srun: error: node2: task 2: Killed\n"}) {
    CAPTURE(line);
    CHECK_FALSE(SrunErrors().take(line));
  }
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
    CHECK(errors.take(fmt::format("srun: error: node2: task 2: {}\n", how)));
    CHECK(errors.signal().value_or(0) == signum);
  }
  SrunErrors errors;
  CHECK(errors.take("srun: error: node2: task 2: Interrupt\nsrun: error: node[0-1]: tasks 0-1: Terminated\n"));
  CHECK(errors.signal() == SIGINT);
}

TEST_CASE("srun's lines come in any pieces, among others") {
  std::string text = "a line\nsrun: error: node2: task 2: Killed\nanother";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CAPTURE(cut);
    SrunErrors errors;
    bool first = errors.take(text.substr(0, cut));
    bool second = errors.take(text.substr(cut));
    CHECK(first != second);
  }
}

TEST_CASE("of a long line of srun only the start is kept") {
  SrunErrors errors;
  CHECK_FALSE(errors.take("srun: error: node2: task 2: "));
  for (int each = 0; each < 1000; ++each) CHECK_FALSE(errors.take(std::string(SrunErrors::kMaxLine, 'x')));
  CHECK(errors.take("\n"));
  CHECK_FALSE(errors.take(std::string(SrunErrors::kMaxLine, 'x') + "srun: error: node2: task 2: Killed\n"));
}

TEST_CASE("srun labels lines if it is asked to") {
  CHECK_FALSE(labels_lines({"--partition=p", "-N4"}));
  CHECK(labels_lines({"--partition=p", "-l"}));
  CHECK(labels_lines({"--label"}));
}
