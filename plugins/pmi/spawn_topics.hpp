// SPDX-License-Identifier: Apache-2.0
//
// The topics that are only about spawned processes.
#pragma once

#include <optional>

#include "plugin/plugin.hpp"
#include "plugins/pmi/spawns.hpp"

namespace nacre::plugins {

// `spawns` has to outlive the plugin's handlers; it may have no value.
void serve_spawns(plugin::Plugin& plugin, std::optional<PmiSpawns>& spawns);

}  // namespace nacre::plugins
