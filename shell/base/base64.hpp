// SPDX-License-Identifier: Apache-2.0
//
// Bytes as text: base64 (RFC 4648, with padding).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nacre {

[[nodiscard]] constexpr std::size_t base64_size(std::size_t bytes) { return (bytes + 2) / 3 * 4; }

// Appends `bytes`, without quotes.
void append_base64(std::string& out, std::string_view bytes);

// None: there is another character, or the length is no multiple of 4.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace nacre
