// SPDX-License-Identifier: Apache-2.0
//
// What this shell's tasks use of GPUs at the moment, for who asks (`nacre top --gpu`): what the plugin usage has
// seen last if it measures them (usage-gpu), else by a look of its own, which is begun only then.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/usage/gpu_watch.hpp"

namespace nacre::plugins {

class GpuAnswers {
 public:
  // For a look; then the one before is told. Below what the leader waits for an answer.
  static constexpr event::Seconds kMostWait{1.5};

  explicit GpuAnswers(plugin::Host& host) : host_(host) {}

  using GpusByRank = std::map<std::uint32_t, usage::TaskGpu>;
  // `notes`: what is wrong, for people. It is called once, perhaps before ask() returns.
  using Done = std::function<void(const GpusByRank& tasks, const std::set<std::string>& notes)>;
  void ask(Done done);
  // Ends the look that is under way; who waits for it gets nothing more.
  void stop();

 private:
  [[nodiscard]] bool answer_by_plugin(const Done& done);
  void tell(const std::set<std::string>& notes);

  plugin::Host& host_;
  std::optional<GpuWatch> watch_;
  std::optional<event::Timer> timer_;
  std::vector<Done> waiting_;
  GpusByRank last_;
  bool is_looking_ = false, is_over_ = false;
};

}  // namespace nacre::plugins
