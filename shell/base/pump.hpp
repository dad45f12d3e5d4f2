// SPDX-License-Identifier: Apache-2.0
//
// For who carries out what something asks for, step by step, where a step may ask for more and may call its way back to here.
//
// The rule: steps never nest. A call from within a step returns at once, as the call that is running does what is new after the
// step; so what is asked for is done in its order, and all of it is done when the outermost call returns.
#pragma once

namespace nacre {

class Pump {
 public:
  // Calls step() until it returns false: there is nothing more to do. False: this was called from within a step.
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
