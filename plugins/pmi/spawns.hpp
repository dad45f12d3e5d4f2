// SPDX-License-Identifier: Apache-2.0
//
// The processes that clients of PMI spawn: each call makes a process group with its own server, on this node.
//
// They run in the job's environment and directory, without stdin. Their output comes out as that of the task that
// requested them, directly or by a chain of spawns. They get each signal that the tasks get, and the job waits for
// them. Their ends count like those of tasks, but not for the job's exit code, which is that of the tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "plugin/host.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/options.hpp"

namespace nacre::plugins {

class SpawnedGroup;

class PmiSpawns {
 public:
  // All of them have to outlive this object. `universe_size` is passed on to the groups.
  PmiSpawns(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
            std::optional<std::uint32_t> universe_size);
  ~PmiSpawns();
  PmiSpawns(const PmiSpawns&) = delete;
  PmiSpawns& operator=(const PmiSpawns&) = delete;

  // Performs a request of a client of `spawner`, and answers it. `task`: the rank as whose output theirs comes out;
  // `name`: the client, for messages.
  void start(PmiGroup& spawner, const pmi::SpawnRequest& request, std::uint32_t task, const std::string& name);

 private:
  using Groups = std::list<std::unique_ptr<SpawnedGroup>>;

  Result<std::string> start(const pmi::Spawn& spawn, const pmi::ClientGroup& spawner, std::uint32_t task,
                            const std::string& name);
  void signal(int signum);
  void release(Groups::iterator group);

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  pmi::Names& names_;
  std::optional<std::uint32_t> universe_size_;
  Groups groups_;  // those with a process that runs
  std::uint64_t count_ = 0;
  plugin::Registration signals_;
};

}  // namespace nacre::plugins
