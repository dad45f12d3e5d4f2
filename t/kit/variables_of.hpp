// SPDX-License-Identifier: Apache-2.0
//
// A test's own environment.
#pragma once

#include "boot/allocation.hpp"

namespace nacre::kit {

inline boot::Variables variables_of(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const char* name) -> std::optional<std::string> {
    auto found = all.find(name);
    return found != all.end() ? std::optional(found->second) : std::nullopt;
  };
}

template <typename T>
std::string error_of(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

}  // namespace nacre::kit
