// SPDX-License-Identifier: Apache-2.0
#include "group/directory.hpp"

#include "base/text.hpp"

namespace nacre::group {

Result<void> Directory::set(Rank rank, std::string_view addresses) {
  std::vector<transport::Address> parsed;
  for (std::string_view each : split(addresses, ' ')) {
    if (!each.empty()) parsed.push_back(TRY(in(fmt::format("shell {}", rank), transport::Address::parse(each))));
  }
  set(rank, std::move(parsed));
  return {};
}

std::vector<transport::Address> Directory::find(Rank rank) const {
  auto found = known_.find(rank);
  if (found != known_.end()) return found->second;
  return otherwise_ ? otherwise_(rank) : std::vector<transport::Address>();
}

}  // namespace nacre::group
