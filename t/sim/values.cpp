// SPDX-License-Identifier: Apache-2.0
#include "values.hpp"

namespace nacre::sim {
namespace {

constexpr std::uint64_t kCarries = 300'000;  // microseconds that a value is on its way, at most

}  // namespace

Bytes digest_of(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211U;
  return fmt::format("{:032x}", hash);
}

void publish(World& world, Publish& effect) {
  auto value = std::make_shared<Bytes>(std::move(effect.value));
  for (Id id = 1; id < world.hosts.size(); ++id) {
    Time at = world.now + Time(world.random.in(0, kCarries));
    world.at_host(id, at, [entry = effect.entry, value](Node& node) { node.arrived(entry, *value); });
  }
}

}  // namespace nacre::sim
