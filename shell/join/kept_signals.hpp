// SPDX-License-Identifier: Apache-2.0
//
// Signals for the tasks that come from the launcher before there are tasks: they take effect once all tasks have
// started. As in the kernel, each is kept once, and SIGCONT and the signals that stop cancel each other.
#pragma once

#include <vector>

namespace nacre::join {

class KeptSignals {
 public:
  void keep(int signum);
  // Takes all of them out, in the order in which they came.
  [[nodiscard]] std::vector<int> take();

 private:
  std::vector<int> signals_;
};

}  // namespace nacre::join
