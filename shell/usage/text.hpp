// SPDX-License-Identifier: Apache-2.0
//
// A job's usage for people: nacre-report(1), "USAGE".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"

namespace nacre::usage {

// Whether it is only what wait4(2) has told: then there are no measures, nor anything by task or node.
[[nodiscard]] bool is_unmeasured(const Json& summary);

// Lines that begin with `prefix`. `summary`: as UsageTable makes it, or of what was not measured; members that are
// missing or of another type are left out. `has_blocks`: with a column of block characters, UTF-8, that has each
// measure by rank.
[[nodiscard]] std::string summary_text(const Json& summary, std::string_view prefix, bool has_blocks = false);

// A table of tasks, of TaskRow::json(), with a line of titles.
[[nodiscard]] std::string rows_text(const Json& rows);

// A job's usage as a picture, in SVG: a panel for each measure that a summary has by rank, with a bar for each
// task, or for several neighbours; else how many tasks have which value. Nothing else is needed to draw it.

inline constexpr std::size_t kMostTitle = 100;  // bytes of a command in a title

// A whole document. `summary`: as UsageTable makes it; members that are missing or of another type are left out.
// `title`: any text.
[[nodiscard]] std::string svg_of(const Json& summary, std::string_view title);

}  // namespace nacre::usage
