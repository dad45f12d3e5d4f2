// SPDX-License-Identifier: Apache-2.0
//
// Small functions on text that do not allocate.
#pragma once

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

// `word` as any shell of the Bourne family reads it: in single quotes unless it is plain.
[[nodiscard]] std::string quoted_for_shell(std::string_view word);

// Whether `text` matches the glob(7) `pattern` (fnmatch(3), no flags: '*' also matches '/' and '.').
[[nodiscard]] bool glob_match(const std::string& pattern, const std::string& text);

// Whether `text` has a glob(7) metacharacter: one of *?[
[[nodiscard]] bool is_glob(std::string_view text);

// Escapes `name` so that, as a part of a glob(7), it matches only itself.
[[nodiscard]] std::string escape_glob(std::string_view name);

// The text with ASCII letters in lower case.
[[nodiscard]] std::string lower(std::string_view text);

// "1 task", "2 tasks"
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view what);

// Text of others on its way to a terminal.

// `text` for a terminal: bytes that control a terminal are written as \xNN. These are the control characters of
// ASCII except the tab, those of Unicode (U+0080 to U+009F, and those that change the text's direction), and bytes
// that are no UTF-8, which a terminal may take for control characters.
[[nodiscard]] std::string escape_controls(std::string_view text);
// The same for a text of several lines.
[[nodiscard]] std::string escape_lines(std::string_view text);

// Names that a misspelt one may stand for.

// How many bytes have to be inserted, removed or replaced to make `b` of `a`; two neighbours that are swapped count
// as one.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// How many edits may turn a name of this length into the meant one: 1 up to three bytes, 2 up to nine, otherwise 3.
[[nodiscard]] std::size_t max_edits(std::size_t length);

// The name in `known` with the fewest edits from `name`, at most max_edits(); the first of several. None: `name` is
// in `known`, is longer than 100 bytes, or no name is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view name, std::span<const std::string> known);

// "; did you mean NAME?" with the nearest name of `known`, or "".
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace nacre
