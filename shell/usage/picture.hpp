// SPDX-License-Identifier: Apache-2.0
//
// A job's usage as a picture, in SVG: a panel for each measure that a summary has by rank, with a bar for each
// task, or for several neighbours; else how many tasks have which value. Nothing else is needed to draw it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"

namespace nacre::usage {

inline constexpr std::size_t kMostTitle = 100;  // bytes of a command in a title

// A whole document. `summary`: as UsageTable makes it; members that are missing or of another type are left out.
// `title`: any text.
[[nodiscard]] std::string svg_of(const Json& summary, std::string_view title);

}  // namespace nacre::usage
