// SPDX-License-Identifier: Apache-2.0
//
// Small functions on text that do not allocate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre {

// The pieces of `text` between separators; "" has one empty piece.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// `text` without blanks (space, tab, CR, LF) at both ends.
[[nodiscard]] std::string_view trim(std::string_view text);

// The whole of `text` as a decimal number without sign, blanks or prefix; none if it is not one or does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_u64(std::string_view text);

// The whole of `text` as a decimal number with an optional '-'.
[[nodiscard]] std::optional<std::int64_t> parse_i64(std::string_view text);

// `text` in single quotes for a message: control bytes are escaped as \xNN, and it is cut to 80 bytes with an
// ellipsis.
[[nodiscard]] std::string in_quotes(std::string_view text);

// Whether `text` matches the glob(7) `pattern` (fnmatch(3), no flags: '*' also matches '/' and '.').
[[nodiscard]] bool glob_match(const std::string& pattern, const std::string& text);

// Whether `text` has a glob(7) metacharacter: one of *?[
[[nodiscard]] bool is_glob(std::string_view text);

}  // namespace nacre
