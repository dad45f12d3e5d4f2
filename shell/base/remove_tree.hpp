// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.hpp"

namespace nacre {

// Removes a directory of this process's user with all that is in it, however deep: with one or two descriptors. Follows no link, leaves
// what is mounted there alone, and opens up directories that their owner may not write to. Goes on after an error; the first one.
Result<void> remove_tree(const std::string& path);

}  // namespace nacre
