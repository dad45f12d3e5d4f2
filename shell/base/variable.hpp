// SPDX-License-Identifier: Apache-2.0
//
// The environment of this process, which must not change while other threads may read it.
#pragma once

#include <optional>
#include <string>

namespace nacre {

// None: it is not set.
[[nodiscard]] std::optional<std::string> own_variable(const char* name);

}  // namespace nacre
