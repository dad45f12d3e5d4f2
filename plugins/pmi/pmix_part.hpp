// SPDX-License-Identifier: Apache-2.0
//
// Spawns that a client of PMIx requests. The plugin pmix serves the processes and knows what follows from how they
// end; here they are placed and started, as those of PMI-1 and PMI-2. The two speak by topics:
//
//   pmi.spawn          pmix requests a spawn
//   pmi.spawn-begins   on each shell that performs it, before the shell's processes are started: it is to know the
//                      new namespace, and gives them their environments
//   pmi.spawn-started  those of this shell run
//   pmi.spawn-exited   one of them has ended
//   pmi.spawns-over    the tasks of this shell have ended, and so has all that was spawned on it
//   pmi.spawn-settled  it is known whether all have started, and that of the shell that has asked answers
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "plugin/host.hpp"
#include "plugins/pmi/spawn_order.hpp"
#include "plugins/pmi/spawn_rounds.hpp"
#include "plugins/pmi/spawned_part.hpp"
#include "plugins/pmi/spawned_processes.hpp"

namespace nacre::plugins {

struct PmixRequest {
  std::uint64_t number = 0;                         // pmix's own, on this shell
  SpawnOrder order;                                 // without what PmiSpawns adds
  static Result<PmixRequest> read(const Json& in);  // of pmi.spawn
};

// By process of this shell: the variables that it is to have.
using SpawnEnvironments = std::vector<std::map<std::string, std::string>>;
Result<SpawnEnvironments> notify_begin(plugin::Host& host, const SpawnRound& round);

// `start`: of the tasks. `round`: its number in that start; 0: it has none. `asked`: the number of the request, if
// it is one of this shell's.
void notify_settled(plugin::Host& host, std::uint64_t start, std::uint64_t round,
                    std::optional<std::uint64_t> asked, const Result<void>& outcome);

void notify_over(plugin::Host& host);

class PmixPart final : public SpawnedPart {
 public:
  // `on_over`: all of this shell have ended; it may destroy this object.
  PmixPart(plugin::Host& host, const plugin::Plugin& plugin, const SpawnRound& round,
           std::function<void()> on_over);

  Result<void> start(const pmi::Spawn& spawn) override;
  void cancel() override;
  void signal(int signum) override;

  [[nodiscard]] std::uint32_t running() const override { return processes_.running(); }
  [[nodiscard]] std::vector<SpawnedProcess> that_run() const override { return processes_.that_run(ranks_); }
  [[nodiscard]] bool over() const override { return is_over_; }
  [[nodiscard]] bool is_connected() const override { return false; }  // pmix answers that itself
  [[nodiscard]] const PmiGroup* group() const override { return nullptr; }
  [[nodiscard]] std::uint32_t output_task() const override { return round_.order.task; }

  // pmix knows all of that.
  void shell_leaves() override {}
  void lost_elsewhere(std::uint32_t /*rank*/) override {}
  void lost_with_shell(std::uint32_t /*rank*/) override {}

 private:
  void exited(std::uint32_t index);
  void finish();

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  SpawnRound round_;
  std::function<void()> on_over_;
  std::vector<std::uint32_t> ranks_;  // those of this shell
  SpawnedProcesses processes_;        // in their order
  bool is_over_ = false;
};

}  // namespace nacre::plugins
