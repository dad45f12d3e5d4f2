// SPDX-License-Identifier: Apache-2.0
//
// Which of many things a trace shows: the slowest 1 %, and of the others as many as there is room for, evenly.
#pragma once

#include <cstddef>
#include <vector>

#include "timeline/event.hpp"

namespace nacre::timeline {

struct Sampled {
  Time time = 0;           // that it took
  std::size_t events = 0;  // that it would have in the trace
};

// For each, whether it is shown; all are if they have at most `budget` events. At least the slowest one is.
[[nodiscard]] std::vector<bool> sample_of(const std::vector<Sampled>& all, std::size_t budget);

}  // namespace nacre::timeline
