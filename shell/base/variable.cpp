// SPDX-License-Identifier: Apache-2.0
#include "base/variable.hpp"

#include <cstdlib>

namespace nacre {

std::optional<std::string> own_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace nacre
