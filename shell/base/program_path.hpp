// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace nacre {

// Whether a program of this name is in the PATH of this process; /usr/bin and /bin if it has none.
[[nodiscard]] bool is_in_path(std::string_view program);

}  // namespace nacre
