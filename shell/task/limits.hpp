// SPDX-License-Identifier: Apache-2.0
//
// The names of resource limits: those of getrlimit(2) in lower case without RLIMIT_, "nofile"; "ofile" is taken for
// that.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace nacre::task {

struct LimitName {
  std::string_view name;
  int resource = 0;  // RLIMIT_*
};

[[nodiscard]] std::span<const LimitName> limit_names();  // all that Linux has, by name
[[nodiscard]] std::optional<int> limit_resource(std::string_view name);
[[nodiscard]] std::optional<std::string_view> limit_name(int resource);

}  // namespace nacre::task
