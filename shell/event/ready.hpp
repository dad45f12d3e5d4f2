// SPDX-License-Identifier: Apache-2.0
//
// Waits for a descriptor before there is a loop.
#pragma once

#include "base/result.hpp"
#include "event/loop.hpp"

namespace nacre::event {

// Whether one of these events of poll(2), or a hang-up, has come by `until`, a time of clock_now(). Looks at least
// once.
Result<bool> ready_by(int fd, short events, Seconds until);

}  // namespace nacre::event
