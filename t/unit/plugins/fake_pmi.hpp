// SPDX-License-Identifier: Apache-2.0
//
// Stand-ins for the processes of a PMI group and for the other nodes.
#pragma once

#include "plugins/pmi/departures.hpp"
#include "pmi/key_exchange.hpp"

namespace nacre::plugins {

// With fault-tolerance.
inline PmiOptions tolerant(int signum = 0) {
  PmiOptions options;
  options.fault_tolerant = true;
  options.fault_signal = signum;
  return options;
}

class FakeProcesses final : public PmiProcesses {
 public:
  explicit FakeProcesses(std::size_t count) : running(count, true) {}

  [[nodiscard]] std::string name_of(std::uint32_t client) const override {
    return fmt::format("client {}", client);
  }
  [[nodiscard]] std::optional<std::uint32_t> task_of(std::uint32_t client) const override {
    return are_tasks ? std::optional(client) : std::nullopt;
  }
  [[nodiscard]] bool runs(std::uint32_t client) const override { return running[client]; }
  void kill(std::uint32_t client, int signum) override {
    killed.push_back(fmt::format("{} by {}", client, signum));
    if (on_kill) on_kill(client);
  }

  bool are_tasks = true;
  std::vector<bool> running;
  std::vector<std::string> killed;  // "CLIENT by SIGNUM"
  std::function<void(std::uint32_t client)> on_kill;
};

// An exchange whose answers the test gives.
class FakeExchange final : public pmi::KeyExchange {
 public:
  void fence(const pmi::EntryRefs&, Done done) override {
    ++fences;
    if (answers) return done(pmi::Entries());
    waiting.push_back(std::move(done));
  }

  void fence_group(const pmi::BarrierGroup& group, const pmi::EntryRefs&, Done done) override {
    groups.push_back(group.name());
    if (answers) return done(pmi::Entries());
    waiting.push_back(std::move(done));
  }

  bool answers = true;
  std::vector<std::string> groups;
  int fences = 0;
  std::vector<Done> waiting;
};

}  // namespace nacre::plugins
