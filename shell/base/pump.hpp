// SPDX-License-Identifier: Apache-2.0
//
// Performs steps until there are none left. A step may cause new ones, and may lead to another call of this object.
//
// Steps never nest. A call from within a step returns at once, as the running call performs the new steps after it.
// So steps are performed in their order, and all are done when the outermost call returns.
#pragma once

namespace nacre {

class Pump {
 public:
  // Calls step() until it returns false: there is nothing left. Returns false if it was called from within a step.
  template <typename Step>
  bool run(Step step) {
    if (running_) return false;
    running_ = true;
    while (step()) {
    }
    running_ = false;
    return true;
  }

 private:
  bool running_ = false;
};

}  // namespace nacre
