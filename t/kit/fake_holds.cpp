// SPDX-License-Identifier: Apache-2.0
#include "fake_holds.hpp"

namespace nacre::kit {
namespace {

Result<void> release_one(std::map<std::string, int>& held, std::string_view name, std::string_view what) {
  auto it = held.find(std::string(name));
  if (it == held.end()) return Error{ENOENT, fmt::format("no {} '{}'", what, name)};
  if (--it->second == 0) held.erase(it);
  return {};
}

}  // namespace

Result<void> FakeHolds::release(std::string_view name) { return release_one(holds, name, "completion reference"); }

Result<void> FakeHolds::release_start(std::string_view name) { return release_one(start_holds, name, "reference"); }

}  // namespace nacre::kit
