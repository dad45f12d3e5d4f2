// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawn_topics.hpp"

#include <utility>

#include "plugins/pmi/pmix_part.hpp"

namespace nacre::plugins {

void serve_spawns(plugin::Plugin& plugin, std::optional<PmiSpawns>& spawns) {
  plugin.on("pmi.spawned", [&plugin, &spawns](plugin::Call& call) {
    if (spawns && spawns->table().is_connected()) call.out[plugin.name()] = true;
    return Result<void>();
  });
  plugin.on("pmi.processes", [&spawns](plugin::Call& call) {
    Json out = Json::array();
    auto take = [&out](std::uint64_t spawn, std::uint32_t task, const SpawnedProcess& process) {
      out.push_back({{"spawn", spawn}, {"rank", process.rank}, {"task", task}, {"pid", process.pid}});
    };
    if (spawns) spawns->table().each_process(take);
    if (!out.empty()) call.out["processes"] = std::move(out);
    return Result<void>();
  });
  plugin.on("shell.tasks-complete", [&spawns](plugin::Call&) {
    if (spawns) spawns->all_tasks_ended();
    return Result<void>();
  });
  plugin.on("pmi.spawn", [&spawns](plugin::Call& call) -> Result<void> {
    if (!spawns) return {};
    PmixRequest request = TRY(PmixRequest::read(call.in));
    call.out["taken"] = true;
    spawns->start(std::move(request));
    return {};
  });
  plugin.on("pmi.spawning", [&spawns](plugin::Call& call) {
    if (!spawns) return Result<void>();
    call.out["takes_part"] = spawns->takes_part();
    call.out["goes_on"] = spawns->has_some();
    if (auto size = spawns->universe_size()) call.out["universe_size"] = *size;
    return Result<void>();
  });
}

}  // namespace nacre::plugins
