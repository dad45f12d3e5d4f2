// SPDX-License-Identifier: Apache-2.0
//
// nacre-shell --list-options=FORMAT: the table of shell options, as JSON or as the beginning of a completion for
// bash, zsh or fish.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nacre::cli {

inline constexpr const char* kListFormats[] = {"json", "bash", "zsh", "fish"};

// None: there is no such format.
[[nodiscard]] std::optional<std::string> list_options(std::string_view format);

}  // namespace nacre::cli
