// SPDX-License-Identifier: Apache-2.0
//
// What the protocol costs, by the number of members: messages, bytes and virtual time of a few things that every
// job does.
#pragma once

#include <cstdint>
#include <vector>

namespace nacre::sim {

// Prints a table, for jobs of so many members each.
void print_report(const std::vector<std::uint32_t>& sizes);

}  // namespace nacre::sim
