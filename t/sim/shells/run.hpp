// SPDX-License-Identifier: Apache-2.0
//
// Runs the job of a plan, with real shells over a made-up kernel, and checks how it ended.
#pragma once

#include "shells/plan.hpp"

namespace nacre::shells {

struct Outcome {
  std::string broken;  // the broken rule; empty: all is as it should be
  std::string trace;
  std::uint64_t digest = 0;
  std::uint64_t steps = 0;
  Nanoseconds took = 0;
  int code = 0;
};

Outcome run(const Plan& plan, bool traces);

// Finds a smaller plan that is still broken.
Plan shrink(Plan plan);

}  // namespace nacre::shells
