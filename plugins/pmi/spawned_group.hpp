// SPDX-License-Identifier: Apache-2.0
//
// A process group that a client of PMI has spawned: its server and its processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/pmi/departures.hpp"
#include "plugins/pmi/group.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {

class SpawnedGroup final : public PmiProcesses {
 public:
  struct Origin {
    std::string kvsname;   // of this group
    std::string spawner;   // of the requesting client's group
    std::uint64_t number;  // counted from 1
    std::uint32_t task;    // the rank of the task as whose output theirs comes out
    std::optional<std::uint32_t> universe_size;
    pmi::Quota* quota;  // the job's
  };
  struct Callbacks {
    std::function<void(SpawnedGroup&, const pmi::SpawnRequest&)> on_spawn;
    std::function<void()> on_over;  // all its processes have ended; the callback may destroy this object
  };

  // All of them have to outlive this object.
  SpawnedGroup(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
               const pmi::Spawn& spawn, Origin origin, Callbacks callbacks);

  // Starts all processes or, with an error, none. Those that had started by then are ended, and then on_over is
  // called.
  Result<void> start(const pmi::Spawn& spawn);
  void signal(int signum);  // sends it to all that run

  [[nodiscard]] PmiGroup& group() { return group_; }
  [[nodiscard]] const Origin& origin() const { return origin_; }
  [[nodiscard]] bool over() const { return running_ == 0; }

  [[nodiscard]] std::string name_of(std::uint32_t client) const override;
  [[nodiscard]] std::optional<std::uint32_t> task_of(std::uint32_t /*client*/) const override { return {}; }
  [[nodiscard]] bool runs(std::uint32_t client) const override;
  void kill(std::uint32_t client, int signum) override;

 private:
  static pmi::ClientGroup members(const pmi::Spawn& spawn, const Origin& origin, const PmiOptions& options);
  PmiGroup::Callbacks callbacks();
  Result<std::pair<UniqueFd, UniqueFd>> open_output();
  Result<void> start_one(const pmi::SpawnProgram& program, const std::string& executable);
  void exited(std::uint32_t client);

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  Origin origin_;
  Callbacks callbacks_;
  pmi::NoExchange exchange_;
  PmiDepartures departures_;
  PmiGroup group_;
  std::vector<std::unique_ptr<task::Subprocess>> processes_;  // by client
  std::uint32_t running_ = 0;
  bool cancelled_ = false;  // a process could not be started
};

}  // namespace nacre::plugins
