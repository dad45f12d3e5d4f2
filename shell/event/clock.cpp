// SPDX-License-Identifier: Apache-2.0
#include "event/clock.hpp"

#include <uv.h>

namespace nacre::event {

Seconds clock_now() { return std::chrono::nanoseconds(uv_hrtime()); }

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace nacre::event
