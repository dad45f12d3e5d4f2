// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/affinity_plan.hpp"

#include <fmt/format.h>

#include "base/program.hpp"
#include "job/job.hpp"
#include "task/gpus.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {
void fields(auto& io, wire::Of<PlacedTask> auto& m) {
  io.has("cpus", m.cpus);
  io.has("memory", m.memory);
  io.has("gpus", m.gpus, wire::Each{wire::Between{0, value::Idset::kMaxId}});
  io.has("nics", m.nics);
  io.has("why", m, wire::Object{[](auto& why, auto& of) {
           why.has("cpus", of.cpus_why);
           why.has("memory", of.memory_why);
           why.has("gpus", of.gpus_why);
           why.has("nics", of.nics_why);
         }});
}

void fields(auto& io, wire::Of<AffinityPlan> auto& m) {
  io.has("tasks", m.placement.tasks);
  io.has("unused", m.placement.unused);
  io.has("dry-run", m.is_dry_run);
}

Json to_json(const AffinityPlan& plan) { return wire::to_json(plan); }

bool have_only_names(const plugin::Host& host) {
  return host.job().resources.is_made && !task::find_gpus(own_variable).names.empty();
}

Result<AffinityPlan> ask_for_plan(plugin::Host& host, std::string_view option) {
  plugin::Call call("affinity.plan");
  if (TRY(host.stack().call(call)) == 0) {
    return Error{
        ENOENT,
        fmt::format("{}: no plugin answers to affinity.plan, as the builtin plugin cpu-affinity does", option)};
  }
  JsonAt json = JsonAt::root(call.out, "affinity.plan");
  auto out = TRY(wire::from_json<AffinityPlan>(json));
  const std::size_t slots = TRY(job::tasks_at_once(host.options(), host.job(), host.tasks().size()));
  if (out.placement.tasks.size() != slots)
    return json.error(fmt::format("it has {} tasks, not {}", out.placement.tasks.size(), slots));
  return out;
}

}  // namespace nacre::plugins
