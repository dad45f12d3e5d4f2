// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawns.hpp"

#include <fmt/format.h>

#include "plugins/pmi/spawned_group.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kSpawnHold = "pmi-spawn";

}  // namespace

PmiSpawns::PmiSpawns(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
                     std::optional<std::uint32_t> universe_size)
    : host_(host), plugin_(plugin), options_(options), names_(names), universe_size_(universe_size) {}

// Processes that still run are not waited for.
PmiSpawns::~PmiSpawns() {
  while (!groups_.empty()) release(groups_.begin());
}

void PmiSpawns::start(PmiGroup& spawner, const pmi::SpawnRequest& request, std::uint32_t task,
                      const std::string& name) {
  const pmi::Spawn& spawn = request.spawn;
  Result<std::string> started = start(spawn, spawner.server().group(), task, name);
  if (!started) {
    log(host_, plugin_, Level::error, "{}: spawn of {}: {}", name, spawn.programs.front().argv.front(),
        started.error().message);
  }
  spawner.spawned(request.client, started, std::vector<int>(started ? spawn.processes() : 0));
}

// Returns the new group's kvsname.
Result<std::string> PmiSpawns::start(const pmi::Spawn& spawn, const pmi::ClientGroup& spawner, std::uint32_t task,
                                     const std::string& name) {
  if (host_.ending()) return Error{ECANCELED, "the job is being ended"};
  if (spawn.processes() == 0) return invalid("expected one process or more");
  if (count_++ == 0) signals_ = host_.signal_also([this](int signum) { signal(signum); });
  // unique among the groups that all shells of the job have spawned
  std::string kvsname = fmt::format("nacre_{}_{}_{}", host_.job().id.value(), host_.job().shell_rank, count_);
  auto place = groups_.emplace(groups_.end());
  SpawnedGroup::Callbacks on;
  on.on_spawn = [this](SpawnedGroup& group, const pmi::SpawnRequest& request) {
    start(group.group(), request, group.origin().task, group.name_of(request.client));
  };
  on.on_over = [this, place] { release(place); };
  *place = std::make_unique<SpawnedGroup>(
      host_, plugin_, options_, names_, spawn,
      SpawnedGroup::Origin{kvsname, spawner.kvsname, count_, task, universe_size_, spawner.quota}, std::move(on));
  host_.hold(kSpawnHold);
  Result<void> started = (*place)->start(spawn);
  if (!started && (*place)->over()) release(place);
  if (!started) return std::move(started).error();
  log(host_, plugin_, Level::debug, "{} has spawned {} processes: {}", name, spawn.processes(), kvsname);
  return kvsname;
}

void PmiSpawns::signal(int signum) {
  for (const auto& group : groups_) group->signal(signum);
}

void PmiSpawns::release(Groups::iterator group) {
  groups_.erase(group);
  Result<void> released = host_.release(kSpawnHold);
  if (!released) log(host_, plugin_, Level::error, "{}", released.error().message);
}

}  // namespace nacre::plugins
