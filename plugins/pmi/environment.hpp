// SPDX-License-Identifier: Apache-2.0
//
// What tasks find of PMI in their environment beside their connection, and warnings of what they do not find.
#pragma once

#include <string>
#include <vector>

#include "job/environment.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// For programs that load a library of PMI which the environment names; `is_first`: all that load one find it first.
void name_library(job::Environment& environment, bool is_first);
// The leader warns of those of `names` that are no interface, and that no plugin has.
void warn_of_unknown(plugin::Host& host, const plugin::Plugin& plugin, const std::vector<std::string>& names);

}  // namespace nacre::plugins
