// SPDX-License-Identifier: Apache-2.0
#include "plugin/plan.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <map>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "task/cpu_rights.hpp"
#include "task/limits.hpp"
#include "task/memory_policy.hpp"
#include "value/idset.hpp"

namespace nacre::plugin {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Variables variables(const job::Environment& environment) {
  Variables out;
  for (const auto& [name, value] : environment.all()) out.emplace(name, value);
  return out;
}

// "+NAME='value'" for each variable that `after` adds or changes, "-NAME" for each that it lacks. What `shows`
// keeps back is "+NAME, its value is left out".
std::vector<std::string> differences(const Variables& before, const Variables& after,
                                     const decltype(PlanPartOptions::shows)& shows) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : after) {
    auto old = before.find(name);
    if (old != before.end() && old->second == value) continue;
    bool is_shown = !shows || shows(name, value);
    lines.push_back(is_shown ? fmt::format("+{}={}", name, in_quotes(value))
                             : fmt::format("+{}, its value is left out", name));
  }
  for (const auto& [name, value] : before) {
    if (!after.contains(name)) lines.push_back("-" + name);
  }
  return lines;
}

std::string cpus_of(const task::CpuMask& mask) { return mask.empty() ? "inherited" : task::set_of(mask).str(); }

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : fmt::format("{}", value); }

std::string_view policy_text(int policy) {
  return policy == SCHED_BATCH ? "batch" : policy == SCHED_IDLE ? "idle" : "other";
}

Json node_of(const Host& host) {
  const job::NodeResources& node = host.job().node();
  return {{"broker", node.broker_rank},
          {"cores", node.cores.empty() ? "none" : node.cores.str()},
          {"gpus", node.gpus.empty() ? "none" : node.gpus.str()},
          {"cwd", host.job().spec.cwd.value_or("inherited")}};
}

// What would be set for the task, a line each.
Json lines_of(const task::Task& task, const Variables& job_environment, const PlanPartOptions& options) {
  const task::ChildSetup& setup = task.command().setup;
  Json out = Json::array();
  out.push_back(fmt::format("cpus    {}", cpus_of(setup.cpus)));
  if (setup.memory) out.push_back(fmt::format("memory  {}", task::memory_policy_text(*setup.memory)));
  for (const std::string& note : task.command().notes) out.push_back("plan    " + note);
  for (const auto& limit : setup.limits) {
    auto name = task::limit_name(limit.resource);
    out.push_back(fmt::format("limit   {} {} (hard {})",
                              name ? std::string(*name) : fmt::format("limit {}", limit.resource),
                              limit_text(limit.value.rlim_cur), limit_text(limit.value.rlim_max)));
  }
  if (setup.oom_score_adj) out.push_back(fmt::format("oom     {}", *setup.oom_score_adj));
  if (setup.scheduler) out.push_back(fmt::format("sched   {}", policy_text(*setup.scheduler)));
  if (setup.new_session) out.push_back("session of its own");
  if (!setup.new_process_group && !setup.new_session) out.push_back("group   of the shell");
  if (setup.trace_me) out.push_back("stopped in exec");
  for (const std::string& line : differences(job_environment, variables(task.command().env), options.shows))
    out.push_back("env     " + line);
  return out;
}

Json plugins_of(const Stack& stack) {
  Json out = Json::array();
  for (const auto& plugin : stack.plugins()) {
    Json topics = Json::array();
    for (const auto& each : plugin->subscriptions()) {
      if (each.handler) topics.push_back(each.topic);
    }
    out.push_back({{"name", plugin->name()}, {"origin", plugin->origin()}, {"topics", std::move(topics)}});
  }
  return out;
}

}  // namespace

Json plan_part(Host& host, const std::vector<std::string>& files, const PlanPartOptions& options) {
  Variables given;
  for (const auto& [name, value] : host.job().spec.environment) given.insert_or_assign(name, value);
  Variables all = variables(host.environment());
  Json tasks = Json::array();
  for (const auto& task : host.tasks()) {
    if (tasks.size() == options.most_tasks) break;
    tasks.push_back(
        {{"rank", task->rank()}, {"local", task->local_id()}, {"lines", lines_of(*task, all, options)}});
  }
  return {{"node", node_of(host)},
          {"environment", differences(given, all, options.shows)},
          {"tasks", std::move(tasks)},
          {"options", host.options().json()},
          {"setters", host.options().setters()},
          {"plugins", plugins_of(host.stack())},
          {"files", files}};
}

std::string explain_plugins(Host& host, const std::set<std::string>& builtins,
                            const std::vector<std::string>& files) {
  Json list = plugins_of(host.stack());
  for (Json& each : list)
    each["replaces_builtin"] =
        each["origin"] != "builtin" && builtins.contains(each["name"].get_ref<const std::string&>());
  std::set<std::string, std::less<>> asked = host.options().asked();
  for (const char* own : {"initrc", "userrc", "lua-timeout"}) asked.erase(own);  // of the shell itself
  return dump_json({{"plugins", std::move(list)}, {"read", files}, {"asked", asked}}) + '\n';
}

}  // namespace nacre::plugin
