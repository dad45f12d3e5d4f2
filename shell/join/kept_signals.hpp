// SPDX-License-Identifier: Apache-2.0
//
// Signals for the tasks that come from the launcher before there are any: they take effect once all tasks have been started. As in the
// kernel, each is kept once, and a signal that stops and SIGCONT cancel each other.
#pragma once

#include <vector>

namespace nacre::join {

class KeptSignals {
 public:
  void keep(int signum);
  // All of them, in the order in which they came; none is left.
  [[nodiscard]] std::vector<int> take();

 private:
  std::vector<int> signals_;
};

}  // namespace nacre::join
