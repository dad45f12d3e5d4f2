// SPDX-License-Identifier: Apache-2.0
//
// What the protocol costs, by the number of members: messages, bytes and virtual time of a few things that every
// job does.
#pragma once

#include <cstdint>

namespace nacre::sim {

// Prints a table, for jobs of 10, 100 … members, up to `most`.
void print_report(std::uint32_t most);

}  // namespace nacre::sim
