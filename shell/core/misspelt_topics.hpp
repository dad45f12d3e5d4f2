// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plugin/stack.hpp"

namespace nacre::core {

// A line for each subscription of a plugin to a topic that no shell calls, with the topic that may be meant. Other
// unknown topics may be those of plugins.
[[nodiscard]] std::vector<std::string> misspelt_topics(const plugin::Stack& stack);

}  // namespace nacre::core
