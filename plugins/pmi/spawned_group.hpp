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

  // Starts all processes of this node. After an error some may run.
  Result<void> start(const pmi::Spawn& spawn);
  // Not all of them could be started, here or elsewhere. Ends those that run; on_over is called once none does,
  // perhaps at once.
  void cancel();
  void signal(int signum);  // sends it to all that run

  [[nodiscard]] PmiGroup& group() { return group_; }
  [[nodiscard]] PmiDepartures& departures() { return departures_; }
  [[nodiscard]] const Origin& origin() const { return origin_; }
  [[nodiscard]] std::uint32_t running() const { return running_; }
  // on_over was called, and no other node waits for this one in a barrier.
  [[nodiscard]] bool over() const { return is_over_ && (between_nodes_ == nullptr || between_nodes_->over()); }

  [[nodiscard]] std::string name_of(std::uint32_t client) const override;
  [[nodiscard]] std::optional<std::uint32_t> task_of(std::uint32_t /*client*/) const override { return {}; }
  [[nodiscard]] bool runs(std::uint32_t client) const override;
  void kill(std::uint32_t client, int signum) override;

 private:
  [[nodiscard]] std::unique_ptr<pmi::KeyExchange> make_exchange(std::uint64_t most);
  [[nodiscard]] pmi::ClientGroup members(const pmi::Spawn& spawn, const PmiOptions& options) const;
  PmiGroup::Callbacks callbacks();
  Result<std::pair<UniqueFd, UniqueFd>> open_output();
  Result<void> start_one(const pmi::SpawnProgram& program, const std::string& executable);
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
  std::vector<std::unique_ptr<task::Subprocess>> processes_;  // by client
  std::uint32_t running_ = 0;
  bool cancelled_ = false;
  bool is_over_ = false;  // on_over was called
};

}  // namespace nacre::plugins
