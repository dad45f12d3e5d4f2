// SPDX-License-Identifier: Apache-2.0
//
// How long the start of a job takes, on virtual time, where some of its hosts are slow, dead or freeze. Each shell
// starts those below it, as a launcher over ssh does; its agent and its links take as long as the seed says.
#pragma once

#include <cstdint>

namespace nacre::sim {

// Prints a table: of each kind of hosts, one start for each seed. A start ends when all have left the first
// collective, or when the leader has waited for more losses after the first one, and names those that are lost.
// Breaks if it names one that is neither dead nor frozen, nor to be started by such a one.
void print_starts(std::uint32_t shells, std::uint64_t first_seed, std::uint64_t last_seed);

}  // namespace nacre::sim
