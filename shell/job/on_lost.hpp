// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a job that loses a shell with tasks, the options `on-lost` and `tolerate-loss`, or its launcher.
#pragma once

#include "base/result.hpp"
#include "job/options.hpp"

namespace nacre::job {

struct OnLost {
  bool replaces = false;  // a spare starts the tasks again
  bool goes_on = false;   // the job goes on without them, if they are not replaced; else it ends

  // on-lost=end|go-on|replace[,else=end|go-on]. tolerate-loss is on-lost=go-on. An error if the two differ.
  static Result<OnLost> read(const Options& options);

  bool operator==(const OnLost&) const = default;
};

// on-launcher-lost=end|go-on: whether the job goes on if its launcher goes.
Result<bool> outlives_launcher(const Options& options);

}  // namespace nacre::job
