// SPDX-License-Identifier: Apache-2.0
//
// The verbs of `nacre` by which people start jobs, look at them and end them. Each has a file of its own, and a
// line here and in nacre.cpp.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/verbs.hpp"

namespace nacre::front {

using cli::VerbPtr;

VerbPtr make_launch();
VerbPtr make_run();
// `nacre mpiexec`, which is `nacre run` with the arguments of others.
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

}  // namespace nacre::front
