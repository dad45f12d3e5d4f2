// SPDX-License-Identifier: Apache-2.0
//
// Text of others on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace nacre {

// `text` for a terminal: bytes that control one are as \xNN. These are the control characters of ASCII but the tab,
// those of Unicode (U+0080 to U+009F), and bytes that are no UTF-8, which a terminal may take for the latter.
[[nodiscard]] std::string escape_controls(std::string_view text);

}  // namespace nacre
