// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "plugin/host.hpp"

namespace nacre::plugin {

// The ranks of this shell's tasks that are connected to PMI, by whatever plugin (topic pmi.connected). What one
// answers wrongly is named in a warning of `component`.
[[nodiscard]] value::Idset pmi_connected(Host& host, std::string_view component);
// Whether processes of this shell are that tasks have spawned (topic pmi.spawned).
[[nodiscard]] bool spawned_connected(Host& host);

}  // namespace nacre::plugin
