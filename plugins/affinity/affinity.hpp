// SPDX-License-Identifier: Apache-2.0
//
// The plan of all tasks of this node, as the plugin cpu-affinity gives it to other plugins: the topic
// `affinity.plan` returns
//
//   {"tasks": [{"cpus": IDSET, "memory": IDSET, "gpus": [N, ...], "nics": [NAME, ...],
//               "why": {"cpus": TEXT, "memory": TEXT, "gpus": TEXT, "nics": TEXT}}, ...],
//    "unused": IDSET, "dry-run": BOOL}
//
// by the slot of a task (task::Task::slot()). A member that no option asks for is empty. The plan is made once, at
// the first call from shell.init on. With dry-run, cpus and memory may be another machine's.
#pragma once

#include "plugin/host.hpp"
#include "plugins/affinity/placement.hpp"

namespace nacre::plugins {

struct AffinityPlan {
  Placement placement;
  bool is_dry_run = false;
};

[[nodiscard]] Json to_json(const AffinityPlan& plan);

// Whether the job's gpus are known only by names that a manager has given them: then nothing is known of where they
// are.
[[nodiscard]] bool have_only_names(const plugin::Host& host);

// Asks for the plan, which has each slot of this shell. An error names `option`, which needs the plan.
Result<AffinityPlan> ask_for_plan(plugin::Host& host, std::string_view option);

}  // namespace nacre::plugins
