// SPDX-License-Identifier: Apache-2.0
//
// Runs a job for each seed, and prints what they have been.
#pragma once

#include <cstdint>
#include <string>

namespace nacre::shells {

struct Seeds {
  std::uint64_t first = 1, last = 1;
  std::uint32_t faults = 0;  // at most, of each job
  std::uint32_t shells = 0;  // at most, of each job, and half as many at least; 0: few
  bool trace = false;        // of each job is printed
  bool twice = false;        // each has to give the same trace again
  bool brief = false;        // a failure is only named
  bool overlaps = false;     // tasks also go on while a shell looks which of them have ended
  bool hands_over = false;   // the leader of each is lost
  std::string file = {};     // where the trace is written to; "": standard output
};

// False: a seed has broken a rule; it was printed, and is the last one.
bool run_seeds(const Seeds& seeds);

}  // namespace nacre::shells
