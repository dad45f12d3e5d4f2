// SPDX-License-Identifier: Apache-2.0
//
// Text of others on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace nacre {

// `text` for a terminal: bytes that control one are as \xNN. These are the control characters of ASCII but the tab,
// those of Unicode (U+0080 to U+009F, and those that change the direction of what follows), and bytes that are no
// UTF-8, which a terminal may take for the former.
[[nodiscard]] std::string escape_controls(std::string_view text);
// The same for a text of several lines.
[[nodiscard]] std::string escape_lines(std::string_view text);

}  // namespace nacre
