// SPDX-License-Identifier: Apache-2.0
//
// The simplest job: one shell, on this host. This process becomes that shell by exec, so the shell has its
// terminal, its signals and its standard streams, and needs neither network nor secret.
#pragma once

#include "base/result.hpp"
#include "front/launch_run.hpp"

namespace nacre::front {

// Whether the plan is of one shell on this host.
[[nodiscard]] bool is_here(const LaunchPlan& plan);

// Returns only if it fails, with the error.
Result<int> run_here(LaunchPlan plan);

}  // namespace nacre::front
