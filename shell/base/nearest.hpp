// SPDX-License-Identifier: Apache-2.0
//
// Names that a misspelt one may stand for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nacre {

// How many bytes have to be inserted, removed or replaced to make `b` of `a`; two neighbours that are swapped count
// as one.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// How many edits make another name of a name of this length: 1 up to three bytes, 2 up to nine, else 3.
[[nodiscard]] std::size_t max_edits(std::size_t length);

// The name of `known` that has the fewest edits from `name`, at most max_edits(); the first of several. None:
// `name` is one of them, is longer than 100 bytes, or none is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view name, std::span<const std::string> known);

// "; did you mean NAME?" with the nearest name of `known`, or "".
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace nacre
