// SPDX-License-Identifier: Apache-2.0
//
// Hosts and their processes: how they begin, freeze, and end, with or without a word to others.

#include "world.hpp"

namespace nacre::sim {

void World::reserve(Id id) {
  if (id >= hosts.size()) hosts.resize(id + 1);
}

void World::boot(Id id, OverlayOptions options) {
  hosts[id].life = Life::up;
  hosts[id].node = std::make_unique<Node>(std::move(options));
  call(id, [this](Node& node) { node.tick(now); });
}

void World::crash(Id id) {
  Host& host = hosts[id];
  if (host.life != Life::up && host.life != Life::frozen) return;
  host.life = Life::crashed;
  host.ended = true;
  host.inbox.clear();
  auto links = host.links;
  bool has_unsent = std::exchange(host.busy, now) > now;
  for (auto& [link, conn] : links) {
    std::uint8_t side = link.side == Side::up ? 1 : 0;
    if (has_unsent) {
      conns_[conn].unsent_after[side] = now + latency_most + host.delay;
      conns_[conn].last[side] = std::min(conns_[conn].last[side], conns_[conn].unsent_after[side]);
    }
    let_go(id, link, true);
  }
}

void World::silence(Id id) {
  for (auto& [link, conn] : hosts[id].links) {
    // Only a beginning of what is under way arrives.
    conns_[conn].lost_after[link.side == Side::up ? 1 : 0] = now + Time(random.in(0, 2000));
  }
}

void World::darken(Id id) {
  Host& host = hosts[id];
  if (host.life != Life::up && host.life != Life::frozen) return;
  silence(id);
  host.life = Life::dark;
  host.inbox.clear();
}

void World::freeze(Id id) {
  if (hosts[id].life == Life::up) hosts[id].life = Life::frozen;
  hosts[id].in_handler = false;
}

void World::thaw(Id id) {
  Host& host = hosts[id];
  if (host.life != Life::frozen) return;
  host.life = Life::up;
  host.thawed = now;
  auto inbox = std::exchange(host.inbox, {});
  if (!host.over) call(id, [this](Node& node) { node.tick(now); });
  for (const auto& each : inbox) each();
}

// The member's process ends later than its node, and then the link over which it has reported that it is gone.
void World::leave(Id id) {
  Host& host = hosts[id];
  LinkName last{host.node->feeder().value_or(id), Side::up};
  auto links = host.links;
  for (auto& [link, conn] : links) {
    if (link != last) let_go(id, link, true);
  }
  host.ended = ends_late && random.one_in(8);
  if (host.ended) {
    host.node->stays();
    auto effects = host.node->take_effects();
    for (Effect& each : effects) perform(id, each);
  }
  if (!ends_late) return end_process(id);
  Time takes{random.one_in(8) ? random.in(0, 2'000'000) : random.in(0, 10'000)};
  at_process(id, now + takes, [this, id] { end_process(id); });
}

void World::end_process(Id id) {
  hosts[id].ended = true;
  auto links = hosts[id].links;
  for (auto& [link, conn] : links) let_go(id, link, true);
}

}  // namespace nacre::sim
