// SPDX-License-Identifier: Apache-2.0
#include "targets.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace nacre::pmix {

Targets find_targets(Clients& clients, const Peers& peers, const pmix_proc_t& id,
                     const std::vector<pmix_proc_t>& named) {
  const std::uint32_t own = clients.shells().own;
  std::vector<Rank> numbers;
  std::vector<pmix_proc_t> wanted = named;
  if (wanted.empty()) wanted.push_back(proc_of(id.nspace, PMIX_RANK_WILDCARD));
  for (const pmix_proc_t& target : wanted) {
    for (Rank number : peers.processes().numbers_of(target.nspace)) {
      const ProcessMap::Place& place = *peers.processes().find(number);
      bool is_named = target.rank == PMIX_RANK_WILDCARD || target.rank == place.rank;
      if (is_named && place.node != own && !peers.has_ended(number)) numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return {clients.targets_of(id, named), std::move(numbers)};
}

}  // namespace nacre::pmix
