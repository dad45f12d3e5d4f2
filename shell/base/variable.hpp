// SPDX-License-Identifier: Apache-2.0
//
// The environment of this process, of which nothing is changed while others may look.
#pragma once

#include <optional>
#include <string>

namespace nacre {

// None: it is not set.
[[nodiscard]] std::optional<std::string> own_variable(const char* name);

}  // namespace nacre
