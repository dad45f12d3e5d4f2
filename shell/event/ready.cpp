// SPDX-License-Identifier: Apache-2.0
#include "event/ready.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "event/clock.hpp"

namespace nacre::event {

Result<bool> ready_by(int fd, short events, Seconds until) {
  pollfd state{fd, events, 0};
  for (;;) {
    double left = std::max((until - clock_now()).count(), 0.0);
    int ready = ::poll(&state, 1, static_cast<int>(std::ceil(left * 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return system_error(errno, "poll");
    if (ready == 0 && left <= 0) return false;
  }
}

}  // namespace nacre::event
