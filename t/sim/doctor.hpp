// SPDX-License-Identifier: Apache-2.0
//
// What a look of `nacre doctor` at a job of very many shells costs, on virtual time: the question goes down the
// log, each shell answers after the interval by bulk records, and the leader puts these together and judges. The
// shells are overlay::Nodes with group::BulkDrivers; their findings are made up.
#pragma once

#include <cstdint>

namespace nacre::sim {

struct DoctorLimits {
  std::uint32_t most_ms = 0;                  // of virtual time beside the interval; 0: any
  std::uint32_t most_messages_per_shell = 0;  // without beats and credit; 0: any
};

// Three looks: all shells answer; a leaf of the tree is frozen; a shell with others below it is. Breaks unless the
// findings are those that were made up, and exactly the shells that are frozen, or below a frozen one, are named as
// absent. Prints what it costs; false: more than a limit.
bool run_doctor(std::uint32_t shells, std::uint32_t tasks_per_shell, const DoctorLimits& limits);

}  // namespace nacre::sim
