// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.hpp"

namespace nacre {

// Removes a directory of this process's user with all that is in it, at any depth, with one or two descriptors.
// Follows no link, leaves file systems that are mounted there alone, and makes directories writable that their
// owner may not write to. Continues after an error, and returns the first one.
Result<void> remove_tree(const std::string& path);

}  // namespace nacre
