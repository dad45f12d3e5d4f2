// SPDX-License-Identifier: Apache-2.0
//
// What this shell's tasks use of GPUs, by a look every 2 s while some of them run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/json_fwd.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/usage/gpu_watch.hpp"
#include "usage/gpu.hpp"

namespace nacre::plugins {

class GpuMeter {
 public:
  static constexpr event::Seconds kFirstLook{0.5};  // after the start of a task
  static constexpr event::Seconds kPeriod{2};       // from the end of a look to the next

  GpuMeter(plugin::Host& host, GpuWatch::Complain complain);

  Result<void> started(const task::Task& task);
  // None: there was no look while it ran.
  [[nodiscard]] std::optional<usage::TaskGpu> exited(const task::Task& task);
  [[nodiscard]] std::vector<usage::NodeGpu> devices() const { return devices_.taken(); }
  // Of the last look, for who asks: nacre-shell-plugins(7) has the members under usage.gpus.
  [[nodiscard]] Json now() const;
  // No look begins any more, and none is waited for.
  void stop();

 private:
  void look();
  void take(const usage::GpuLook& look);

  plugin::Host& host_;
  std::optional<GpuWatch> watch_;
  std::optional<event::Timer> timer_;
  std::map<std::uint32_t, usage::TaskGpuTally> running_;  // by rank
  std::map<std::uint32_t, usage::TaskGpu> last_;          // likewise
  usage::NodeGpuTally devices_;
  bool is_due_ = false;  // a look is under way, or the timer runs
};

// [rank, memory, use of its devices] of each, null for what is not known; and back.
[[nodiscard]] Json wire_of_gpus(const std::map<std::uint32_t, usage::TaskGpu>& tasks);
[[nodiscard]] Result<std::map<std::uint32_t, usage::TaskGpu>> gpus_from(const Json& wire);

}  // namespace nacre::plugins
