// SPDX-License-Identifier: Apache-2.0
//
// What the ends of very many tasks cost the leader's shell: jobs of many shells on virtual time, whose tasks end
// within some seconds. The shells are overlay::Nodes, the leader keeps the records, makes notices for a client that
// reads them, and decides.
#pragma once

#include <cstdint>

namespace nacre::sim {

// Breaks unless all ends are recorded, the union of the notices is the map of the job, and the code is the largest.
// Prints the cpu time of the leader; false: of one job it is more than `most_ms`, if that is not 0.
bool run_ends(std::uint32_t tasks, std::uint32_t shells, std::uint32_t most_ms);

}  // namespace nacre::sim
