// SPDX-License-Identifier: Apache-2.0
//
// mem-affinity: where the tasks' memory comes from, by a memory policy that each task has before it executes.
//
//   bind         from the NUMA nodes of the task's cpus only
//   prefer       from these as long as they have some
//   interleave   page by page from each of these
//   off          as inherited; the default
//
// Which cpus these are, and which nodes are theirs, is in the plan of cpu-affinity (affinity_plan.hpp). A kernel
// that refuses fails the start of the task, with the policy in the message.
#include <fmt/format.h>

#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/affinity_plan.hpp"
#include "plugins/builtins.hpp"
#include "task/cpu_rights.hpp"

namespace nacre::plugins {
namespace {

class MemAffinity final : public plugin::Plugin {
 public:
  explicit MemAffinity(plugin::Host& host) : Plugin("mem-affinity"), host_(host) {
    for (const char* topic : {"shell.init", "shell.take-over"}) on(topic, [this] { return initialize(); });
    on("task.init", [this] {
      if (policy_ != "off") set(*host_.current_task());
    });
  }

 private:
  Result<void> initialize() {
    policy_ = TRY(read_mem_affinity(host_.options().at(name())));
    if (policy_ != "off") plan_ = TRY(ask_for_plan(host_, name()));
    return {};
  }

  void set(task::Task& task) {
    const PlacedTask& placed = plan_.placement.tasks[task.slot()];
    task.command().notes.push_back(fmt::format("memory  {}", placed.memory_why));
    // The nodes of a dry run may be another machine's.
    if (!plan_.is_dry_run) task.command().setup.memory = task::memory_policy(policy_, placed.memory);
  }

  plugin::Host& host_;
  std::string policy_ = "off";
  AffinityPlan plan_;
};

}  // namespace

PluginPtr make_mem_affinity(plugin::Host& host) { return std::make_unique<MemAffinity>(host); }

}  // namespace nacre::plugins
