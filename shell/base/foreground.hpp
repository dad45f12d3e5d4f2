// SPDX-License-Identifier: Apache-2.0
//
// Who has a terminal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace nacre {

// Whether `fd` is this process's terminal, and another process group has it now: it stops who reads it then.
[[nodiscard]] bool is_in_background(int fd);

// Whether characters beyond ASCII are shown as such.

// The value of LC_ALL or the like names UTF-8.
[[nodiscard]] bool is_utf8_locale(std::string_view locale);

// By the variables LC_ALL, LC_CTYPE and LANG, of which the first that is not empty counts; none of them: no.
using VariableLookup = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] bool is_utf8_locale(const VariableLookup& variable);

// The descriptor is a terminal that shows UTF-8, by this process's environment.
[[nodiscard]] bool is_utf8_terminal(int fd);

}  // namespace nacre
