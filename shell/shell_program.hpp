// SPDX-License-Identifier: Apache-2.0
//
// nacre-shell, which is a program of its own and a part of nacre: nacre run becomes the shell of a job that is one
// shell on this host, without executing another program.
#pragma once

#include "base/program.hpp"
#include "launch/record.hpp"

namespace nacre {

inline constexpr const char* kShellName = "nacre-shell";

// The whole program: what main() returns.
int run_shell_program(int argc, char** argv);

// The same for a process that begins with the launch record of its job. `words`: as of the program's command line,
// its name first. `title`: of this process.
int become_shell(ProcessTitle title, std::vector<std::string> words, const launch::LaunchRecord& record);

}  // namespace nacre
