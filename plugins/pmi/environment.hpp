// SPDX-License-Identifier: Apache-2.0
//
// What tasks find of PMI in their environment beside their connection, and warnings of what they do not find.
#pragma once

#include <string>
#include <vector>

#include "job/environment.hpp"
#include "plugin/host.hpp"
#include "task/command.hpp"

namespace nacre::plugins {

// For programs that load a library of PMI which the environment names; `is_first`: all that load one find it first.
void name_library(job::Environment& environment, bool is_first);
// What Open MPI needs whichever way its processes come to their ranks: by PMIx, or, as where Python loads it, by
// PMI-1 through nacre's libpmi. What the job has set already stays.
//
// It names its segments of shared memory by host, job and local rank: those of two shells of a host would meet, so
// they are in the directory of each shell. Called in shell.init, once that directory is there.
void separate_segments(plugin::Host& host);
// As mpirun has it: ranks that share cores leave them to each other where they would spin.
void let_yield(plugin::Host& host, task::Command& command);
// The leader warns of those of `names` that are no interface, and that no plugin has.
void warn_of_unknown(plugin::Host& host, const plugin::Plugin& plugin, const std::vector<std::string>& names);

}  // namespace nacre::plugins
