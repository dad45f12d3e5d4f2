// SPDX-License-Identifier: Apache-2.0
//
// The rows of `nacre ps --plan`: where each task is and why, a row for each kind of thing that was placed; tasks
// that are placed alike, on whichever hosts, have their rows together.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace nacre::front {

// A task as in the leader's answer to `plan`.
struct PlaceOfTask {
  static constexpr std::array<std::string_view, 4> kKinds = {"cpus", "memory", "gpus", "nics"};
  struct Part {
    std::string where, why;  // both empty: it is not shown
    auto operator<=>(const Part&) const = default;
  };

  std::uint32_t rank = 0;
  std::string host;
  std::array<Part, kKinds.size()> parts;
  std::string cpus_now;  // that its process may use; "": it is not known
  std::string unset;     // why cpus and memory are not set; "": they are

  static Result<PlaceOfTask> parse(const Json& json);
};

// The cells RANK HOST WHAT WHERE WHY of each row; RANK and HOST only in the first one of a task, or of several.
[[nodiscard]] std::vector<std::vector<std::string>> place_rows(const std::vector<PlaceOfTask>& tasks, bool folded);

}  // namespace nacre::front
