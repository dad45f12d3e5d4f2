// SPDX-License-Identifier: Apache-2.0
//
// Whether characters beyond ASCII are shown as such.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace nacre {

// The value of LC_ALL or the like names UTF-8.
[[nodiscard]] bool is_utf8_locale(std::string_view locale);

// By the variables LC_ALL, LC_CTYPE and LANG, of which the first that is not empty counts; none of them: no.
using VariableLookup = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] bool is_utf8_locale(const VariableLookup& variable);

// The descriptor is a terminal that shows UTF-8, by this process's environment.
[[nodiscard]] bool is_utf8_terminal(int fd);

}  // namespace nacre
