// SPDX-License-Identifier: Apache-2.0
//
// The plan of a job as text for people: what would run where, bound to what, with what changed in the environment,
// and which plugins had a say.
#pragma once

#include <string>

#include "plugin/host.hpp"

namespace nacre {

// After `task.init` was called for each task.
[[nodiscard]] std::string explain(plugin::Host& host);

}  // namespace nacre
