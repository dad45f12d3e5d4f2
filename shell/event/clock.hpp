// SPDX-License-Identifier: Apache-2.0
//
// The current time, for code that keeps the loop from turning: Loop::now() does not advance meanwhile.
#pragma once

#include <string>

#include "event/loop.hpp"

namespace nacre::event {

[[nodiscard]] Seconds clock_now();  // monotonic, from an arbitrary start
[[nodiscard]] double wall_clock();  // seconds since the Epoch

// Equal in all processes for which the same monotonic clock counts: of one boot, in one time namespace. "": not
// known.
[[nodiscard]] const std::string& clock_of_host();

}  // namespace nacre::event
