// SPDX-License-Identifier: Apache-2.0
//
// The simplest job: one shell, on this host. This process becomes that shell, which so has its terminal, signals and standard
// streams, and needs neither network nor secret.
#pragma once

#include "base/result.hpp"
#include "front/launch_run.hpp"

namespace nacre::front {

// Whether the plan is of one shell on this host.
[[nodiscard]] bool is_here(const LaunchPlan& plan);

// Does not return, but with an error.
Result<int> run_here(LaunchPlan plan);

}  // namespace nacre::front
