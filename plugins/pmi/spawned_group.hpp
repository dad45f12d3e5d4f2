// SPDX-License-Identifier: Apache-2.0
//
// A process group that a client of PMI has spawned: its server and its processes, those of this node. On each other
// node that has some, there is another object for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/pmi/departures.hpp"
#include "plugins/pmi/exchange.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/spawned_part.hpp"
#include "plugins/pmi/spawned_processes.hpp"

namespace nacre::plugins {

class SpawnedGroup final : public SpawnedPart, public PmiProcesses {
 public:
  struct Origin {
    std::string kvsname;   // of this group
    std::string spawner;   // of the requesting client's group
    std::uint64_t number;  // counted from 1
    std::uint32_t task;    // the rank of the task as whose output theirs comes out
    std::optional<std::uint32_t> universe_size;
    pmi::Quota* quota;                  // the job's
    std::vector<std::uint32_t> places;  // by rank: its shell
    task::ChildSetup setup;             // of a task, for where there is none
    PmiExchange::Barriers barriers;     // if other shells have some of them
  };
  struct Callbacks {
    std::function<void(SpawnedGroup&, const pmi::SpawnRequest&)> on_spawn;
    std::function<void(std::uint32_t rank)> on_lost;  // a process of this node; if others have some
    // All processes of this node have ended; the callback may destroy this object.
    std::function<void()> on_over;
  };

  // All of them have to outlive this object.
  SpawnedGroup(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
               const pmi::Spawn& spawn, Origin origin, Callbacks callbacks);

  Result<void> start(const pmi::Spawn& spawn) override;
  void cancel() override;
  void signal(int signum) override;

  [[nodiscard]] PmiGroup& own_group() { return group_; }
  [[nodiscard]] const PmiGroup* group() const override { return &group_; }
  [[nodiscard]] std::uint32_t output_task() const override { return origin_.task; }
  [[nodiscard]] std::uint32_t running() const override { return processes_.running(); }
  [[nodiscard]] std::vector<SpawnedProcess> that_run() const override {
    return processes_.that_run(group_.server().group().ranks);
  }
  [[nodiscard]] bool over() const override {
    return is_over_ && (between_nodes_ == nullptr || between_nodes_->over());
  }
  [[nodiscard]] bool is_connected() const override;
  void shell_leaves() override { departures_.shell_leaves(); }
  void lost_elsewhere(std::uint32_t rank) override { departures_.lost_elsewhere(rank); }
  void lost_with_shell(std::uint32_t rank) override { departures_.lost_with_shell(rank); }

  [[nodiscard]] std::string name_of(std::uint32_t client) const override;
  [[nodiscard]] std::optional<std::uint32_t> task_of(std::uint32_t /*client*/) const override { return {}; }
  [[nodiscard]] bool runs(std::uint32_t client) const override { return processes_.runs(client); }
  void kill(std::uint32_t client, int signum) override;

 private:
  [[nodiscard]] std::unique_ptr<pmi::KeyExchange> make_exchange(std::uint64_t most);
  [[nodiscard]] pmi::ClientGroup members(const pmi::Spawn& spawn, const PmiOptions& options) const;
  PmiGroup::Callbacks callbacks();
  Result<void> start_one(const pmi::SpawnProgram& program);
  void exited(std::uint32_t client);
  void finish();

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  Origin origin_;
  Callbacks callbacks_;
  PmiDepartures departures_;
  PmiExchange* between_nodes_ = nullptr;  // the next, if other shells have some of them
  std::unique_ptr<pmi::KeyExchange> exchange_;
  PmiGroup group_;
  SpawnedProcesses processes_;  // by client
  bool cancelled_ = false;
  bool is_over_ = false;  // on_over was called
};

}  // namespace nacre::plugins
