// SPDX-License-Identifier: Apache-2.0
#include "base/foreground.hpp"

#include <unistd.h>

namespace nacre {

bool is_in_background(int fd) {
  pid_t foreground = ::tcgetpgrp(fd);
  return foreground >= 0 && foreground != ::getpgrp();
}

}  // namespace nacre
