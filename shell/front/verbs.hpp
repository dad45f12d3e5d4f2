// SPDX-License-Identifier: Apache-2.0
//
// The verbs of `nacre` by which people start jobs, look at them and end them. Each has a file of its own, and a
// line here and in nacre.cpp.
#pragma once

#include "cli/verbs.hpp"
#include "launch/record.hpp"

namespace nacre::front {

using cli::VerbPtr;

// Does not return: this process becomes the shell, as `nacre run` does for a job that is one shell on this host.
// `words`: the command line of nacre-shell.
using BecomeShell = std::function<void(std::vector<std::string> words, const launch::LaunchRecord& record)>;
// If it is not set, or another shell is asked for, that program is executed.
void set_own_shell(BecomeShell become);

VerbPtr make_launch();
VerbPtr make_run();
// `nacre mpiexec`: `nacre run` with the arguments of other launchers.
std::variant<cli::Reply, std::vector<std::string>> words_of_mpiexec(const std::string& program,
                                                                    const std::vector<std::string>& words);
VerbPtr make_jobs();
VerbPtr make_ps();
VerbPtr make_exec();
VerbPtr make_top();
VerbPtr make_doctor();
VerbPtr make_timeline();
VerbPtr make_kill();
VerbPtr make_restart();
VerbPtr make_shrink();
VerbPtr make_grow();
VerbPtr make_cancel();
VerbPtr make_wait();
VerbPtr make_attach();
VerbPtr make_report();
VerbPtr make_control();

// Makes the file, with mode 0666 less the umask, or writes over one that is there. Errors name it.
Result<void> write_whole_file(const std::string& path, std::string_view text);

}  // namespace nacre::front
