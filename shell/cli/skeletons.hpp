// SPDX-License-Identifier: Apache-2.0
//
// What `nacre plugin new` writes: plugins that work and have a test, for people to start from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre::cli {

inline constexpr std::size_t kMaxPluginName = 64;  // bytes

enum class Language { c, cpp, lua };

// "c", "c++", "lua".
[[nodiscard]] std::optional<Language> language_named(std::string_view name);

// A name: letters a to z, digits, '_' and '-'; the first is a letter or a digit.
Result<void> check_plugin_name(std::string_view name);

struct SkeletonFile {
  std::string path;  // relative; its directory is `test` or the plugin's own
  std::string text;
};
[[nodiscard]] std::vector<SkeletonFile> skeleton(Language language, const std::string& name);

}  // namespace nacre::cli
