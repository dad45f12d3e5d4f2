// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/affinity_plan.hpp"

#include <fmt/format.h>

namespace nacre::plugins {
namespace {

using value::Idset;

Json task_json(const PlacedTask& task) {
  return {
      {"cpus", task.cpus.str()},
      {"memory", task.memory.str()},
      {"gpus", task.gpus},
      {"nics", task.nics},
      {"why",
       {{"cpus", task.cpus_why}, {"memory", task.memory_why}, {"gpus", task.gpus_why}, {"nics", task.nics_why}}}};
}

Result<Idset> idset_in(const JsonAt& json, std::string_view key) {
  JsonAt member = TRY(json.at(key));
  return in(member.path(), Idset::parse(TRY(member.string())));
}

Result<PlacedTask> task_in(const JsonAt& json) {
  PlacedTask out;
  out.cpus = TRY(idset_in(json, "cpus"));
  out.memory = TRY(idset_in(json, "memory"));
  for (const JsonAt& each : TRY(TRY(json.at("gpus")).elements()))
    out.gpus.push_back(static_cast<Idset::Id>(TRY(each.integer(0, Idset::kMaxId))));
  out.nics = TRY(TRY(json.at("nics")).strings());
  JsonAt why = TRY(json.at("why"));
  out.cpus_why = TRY(TRY(why.at("cpus")).string());
  out.memory_why = TRY(TRY(why.at("memory")).string());
  out.gpus_why = TRY(TRY(why.at("gpus")).string());
  out.nics_why = TRY(TRY(why.at("nics")).string());
  return out;
}

}  // namespace

Json to_json(const AffinityPlan& plan) {
  Json tasks = Json::array();
  for (const PlacedTask& each : plan.placement.tasks) tasks.push_back(task_json(each));
  return {{"tasks", std::move(tasks)}, {"unused", plan.placement.unused.str()}, {"dry-run", plan.is_dry_run}};
}

Result<AffinityPlan> ask_for_plan(plugin::Host& host, std::string_view option) {
  plugin::Call call("affinity.plan");
  if (TRY(host.stack().call(call)) == 0) {
    return Error{
        ENOENT,
        fmt::format("{}: no plugin answers to affinity.plan, as the builtin plugin cpu-affinity does", option)};
  }
  JsonAt json = JsonAt::root(call.out, "affinity.plan");
  AffinityPlan out;
  for (const JsonAt& each : TRY(TRY(json.at("tasks")).elements()))
    out.placement.tasks.push_back(TRY(task_in(each)));
  if (out.placement.tasks.size() != host.tasks().size())
    return json.error(fmt::format("it has {} tasks, not {}", out.placement.tasks.size(), host.tasks().size()));
  out.placement.unused = TRY(idset_in(json, "unused"));
  out.is_dry_run = TRY(TRY(json.at("dry-run")).boolean());
  return out;
}

}  // namespace nacre::plugins
