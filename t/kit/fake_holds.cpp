// SPDX-License-Identifier: Apache-2.0
#include "fake_holds.hpp"

#include <fmt/format.h>

namespace nacre::kit {

Result<void> FakeHolds::release(std::string_view name) {
  auto it = holds.find(std::string(name));
  if (it == holds.end()) return Error{ENOENT, fmt::format("no completion reference '{}'", name)};
  if (--it->second == 0) holds.erase(it);
  return {};
}

Result<void> FakeHolds::release_start(std::string_view name) {
  auto it = start_holds.find(std::string(name));
  if (it == start_holds.end()) return Error{ENOENT, fmt::format("no reference '{}'", name)};
  if (--it->second == 0) start_holds.erase(it);
  return {};
}

}  // namespace nacre::kit
