// SPDX-License-Identifier: Apache-2.0
//
// Which processes a client means with a request, of those that have not ended.
#pragma once

#include <cstddef>
#include <vector>

#include "clients.hpp"
#include "flux.hpp"
#include "peers.hpp"

namespace nacre::pmix {

struct Targets {
  std::vector<PmixClient*> here;
  std::vector<Rank> elsewhere;  // on other shells, as far as is known: their numbers, ascending

  [[nodiscard]] std::size_t size() const { return here.size() + elsewhere.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
};

// Those that are named; none named: all of the namespace of `id`.
Targets find_targets(Clients& clients, const Peers& peers, const pmix_proc_t& id,
                     const std::vector<pmix_proc_t>& named);

}  // namespace nacre::pmix
