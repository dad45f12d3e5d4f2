// SPDX-License-Identifier: Apache-2.0
//
// What is read of a summary, which may be another version's: members that are missing, or of another type, are as
// none. And numbers for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"
#include "usage/measure.hpp"

namespace nacre::usage {

inline constexpr std::size_t kMostText = 200;  // bytes of a host's name, and of a set of ranks

[[nodiscard]] std::optional<double> number_in(const Json& object, std::string_view name);
// "" for none; at most kMostText bytes, without those that a terminal would take for commands.
[[nodiscard]] std::string text_in(const Json& object, std::string_view name);
// null for none
[[nodiscard]] const Json& member_in(const Json& object, std::string_view name);

// "1.234s", "12.3s", "4.5m", "1.2h"; "512", "12.3K"; "9999", "12.3k"; "12.3%".
[[nodiscard]] std::string value_text(double value, Unit unit);
// "3 on n1"; "3" without a host, "" without a rank.
[[nodiscard]] std::string who_in(const Json& extreme);

}  // namespace nacre::usage
