// SPDX-License-Identifier: Apache-2.0
//
// nic-affinity: the network cards near a task's cpus are named in its environment.
//
//   closest   NACRE_NICS in the task's environment: names, joined by commas, as "mlx5_0:1" for a port of an RDMA
//             device, or "eth0" for a network interface where there are no RDMA devices
//   off       nothing is set; the default
//
// The cards are in the plan of cpu-affinity (affinity_plan.hpp). What the libraries of the tasks read is set by
// lua.d/nic-affinity.lua, which a site may change.
#include <fmt/format.h>

#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/affinity_plan.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

class NicAffinity final : public plugin::Plugin {
 public:
  explicit NicAffinity(plugin::Host& host) : Plugin("nic-affinity"), host_(host) {
    for (const char* topic : {"shell.init", "shell.take-over"}) on(topic, [this] { return initialize(); });
    on("task.init", [this] {
      if (is_closest_) set(*host_.current_task());
    });
  }

 private:
  Result<void> initialize() {
    is_closest_ = TRY(read_nic_affinity(host_.options().at(name()))) == "closest";
    if (is_closest_) plan_ = TRY(ask_for_plan(host_, name()));
    return {};
  }

  void set(task::Task& task) {
    const PlacedTask& placed = plan_.placement.tasks[task.slot()];
    task.command().notes.push_back(fmt::format("nics    {}", placed.nics_why));
    task.command().env.set("NACRE_NICS", fmt::format("{}", fmt::join(placed.nics, ",")));
  }

  plugin::Host& host_;
  bool is_closest_ = false;
  AffinityPlan plan_;
};

}  // namespace

PluginPtr make_nic_affinity(plugin::Host& host) { return std::make_unique<NicAffinity>(host); }

}  // namespace nacre::plugins
