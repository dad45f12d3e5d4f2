// SPDX-License-Identifier: Apache-2.0
//
// Handlers of plugins: while one runs its node does nothing, and a thread beside it sends busy beats.

#include "world.hpp"

namespace nacre::sim {

void World::set_in_handler(Id id, bool runs) {
  if (!runs) return std::exchange(hosts[id].in_handler, false) ? thaw(id) : void();
  if (hosts[id].life != Life::up) return;
  freeze(id);
  hosts[id].in_handler = true;
}

void World::send_busy_beats(Id id) {
  Host& host = hosts[id];
  if (!host.in_handler || host.life != Life::frozen || host.over) return;
  const OverlayOptions& options = host.node->options();
  for (const auto& [link, conn] : host.links) {
    bool is_up = link.side == Side::up;
    if (!conns_[conn].greeted[is_up ? 0 : 1] || conns_[conn].half_closed[is_up ? 1 : 0]) continue;
    Beat beat;
    beat.busy.insert(id);
    if (host.node->leads() && !is_up) beat.number = static_cast<std::uint64_t>(now / kMs);
    send(id, link, {options.job, host.node->term(), beat});
  }
}

}  // namespace nacre::sim
