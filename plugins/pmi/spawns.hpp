// SPDX-License-Identifier: Apache-2.0
//
// The processes that clients of PMI spawn: each call makes a process group with a server of its own, on this node.
//
// They run in the job's environment and directory, without stdin; what they write comes out as output of the task that
// asked for them, or whose descendant by spawns did. They get each signal that the tasks get, and the job waits for
// them. How they end counts as it does for tasks, but for the job's exit code: that is the tasks'.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "plugin/host.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/options.hpp"

namespace nacre::plugins {

class SpawnedGroup;

class PmiSpawns {
 public:
  // All outlive this. `universe_size` is what their groups are told.
  PmiSpawns(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
            std::uint32_t universe_size);
  ~PmiSpawns();
  PmiSpawns(const PmiSpawns&) = delete;
  PmiSpawns& operator=(const PmiSpawns&) = delete;

  // Carries out what a client of `spawner` asks for, and answers it. `task`: the rank whose output theirs is;
  // `who`: the client, for people.
  void start(PmiGroup& spawner, const pmi::SpawnRequest& request, std::uint32_t task, const std::string& who);

 private:
  using Groups = std::list<std::unique_ptr<SpawnedGroup>>;

  Result<std::string> start(const pmi::Spawn& spawn, const pmi::Group& spawner, std::uint32_t task,
                            const std::string& who);
  void signal(int signum);
  void release(Groups::iterator group);

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  pmi::Names& names_;
  std::uint32_t universe_size_;
  Groups groups_;  // with a process that runs
  std::uint64_t count_ = 0;
  plugin::Registration signals_;
};

}  // namespace nacre::plugins
