// SPDX-License-Identifier: Apache-2.0
//
// The part of a placement that is about devices: which gpus and which network cards tasks get, once their cpus are
// known. placement.hpp has the rules.
#pragma once

#include <vector>

#include "plugins/affinity/node_map.hpp"
#include "plugins/affinity/placement.hpp"

namespace nacre::plugins {

Result<void> choose_gpus(const NodeTopology& topology, const NodeMap& map, const PlacementRequest& request,
                         std::vector<PlacedTask>& tasks);

// After the gpus.
Result<void> choose_nics(const NodeTopology& topology, const NodeMap& map, std::vector<PlacedTask>& tasks);

}  // namespace nacre::plugins
