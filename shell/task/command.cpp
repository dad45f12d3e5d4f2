// SPDX-License-Identifier: Apache-2.0
#include "task/command.hpp"

#include <unistd.h>

#include <algorithm>

namespace nacre::task {

int ChildSetup::unused_target() const {
  int target = STDERR_FILENO + 1;
  auto used = [&](const Fd& fd) { return fd.target == target; };
  while (std::any_of(fds.begin(), fds.end(), used)) ++target;
  return target;
}

}  // namespace nacre::task
