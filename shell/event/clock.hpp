// SPDX-License-Identifier: Apache-2.0
//
// The current time, for code that keeps the loop from turning: Loop::now() does not advance meanwhile.
#pragma once

#include "event/loop.hpp"

namespace nacre::event {

[[nodiscard]] Seconds clock_now();  // monotonic, from an arbitrary start
[[nodiscard]] double wall_clock();  // seconds since the Epoch

// Equal in all processes for which the same monotonic clock counts: of one boot, in one time namespace. "": not
// known.
[[nodiscard]] const std::string& clock_of_host();

// Waits for a descriptor before there is a loop.

// Whether one of these events of poll(2), or a hang-up, has come by `until`, a time of clock_now(). Looks at least
// once.
Result<bool> ready_by(int fd, short events, Seconds until);

}  // namespace nacre::event
