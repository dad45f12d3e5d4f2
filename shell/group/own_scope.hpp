// SPDX-License-Identifier: Apache-2.0
//
// The collectives of the shells that have joined with this one.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "overlay/entry.hpp"

namespace nacre::group {

struct OwnScope {
  overlay::Scope scope{0, 0};

  // A name counts in the whole job.
  [[nodiscard]] std::string name_of(std::string_view collective) const {
    if (scope.from == 0) return std::string(collective);
    return fmt::format("{}@{}", collective, scope.from);
  }
};

}  // namespace nacre::group
