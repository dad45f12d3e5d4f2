// SPDX-License-Identifier: Apache-2.0
//
// The plugin `usage`, for tests of its limit.
#pragma once

#include <cstdint>

#include "plugins/builtins.hpp"

namespace nacre::plugins {

// `most_tasks`: of a job whose tasks have rows; a larger one has only totals.
PluginPtr make_usage_of(plugin::Host& host, std::uint64_t most_tasks);

}  // namespace nacre::plugins
