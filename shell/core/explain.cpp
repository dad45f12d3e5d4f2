// SPDX-License-Identifier: Apache-2.0
#include "core/explain.hpp"

#include <sys/resource.h>

#include <map>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "task/limits.hpp"
#include "value/idset.hpp"

namespace nacre::core {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Variables variables(const job::Environment& environment) {
  Variables out;
  for (const auto& [name, value] : environment.all()) out.emplace(name, value);
  return out;
}

// "+NAME='value'" for each variable that `after` adds or changes, "-NAME" for each that it lacks.
std::vector<std::string> differences(const Variables& before, const Variables& after) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : after) {
    auto old = before.find(name);
    if (old == before.end() || old->second != value) lines.push_back(fmt::format("+{}={}", name, in_quotes(value)));
  }
  for (const auto& [name, value] : before) {
    if (!after.contains(name)) lines.push_back("-" + name);
  }
  return lines;
}

std::string cpus_of(const task::CpuMask& mask) {
  if (mask.empty()) return "inherited";
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  value::Idset cpus;
  for (std::size_t bit = 0; bit < mask.size() * kBits; ++bit) {
    if (mask[bit / kBits] >> (bit % kBits) & 1U) cpus.insert(static_cast<value::Idset::Id>(bit));
  }
  return cpus.str();
}

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : fmt::format("{}", value); }

void add_job(std::string& out, const plugin::Host& host) {
  const job::Job& job = host.job();
  const job::NodeResources& node = job.node();
  out += fmt::format("job       {} ({})\n", job.f58(), job.id.decimal());
  out += fmt::format("command  ");
  for (const std::string& argument : job.spec.command) out += " " + in_quotes(argument);
  out += fmt::format("\ntasks     {} on {} node{}, taskmap {}\n", job.tasks(), job.shells(),
                     job.shells() == 1 ? "" : "s", job.taskmap.str());
  out += fmt::format("shell     {} of {}, broker rank {}{}{}\n", job.shell_rank, job.shells(), node.broker_rank,
                     node.hostname.empty() ? "" : ", host ", node.hostname);
  out += fmt::format("cores     {}\ngpus      {}\n", node.cores.empty() ? "none" : node.cores.str(),
                     node.gpus.empty() ? "none" : node.gpus.str());
  out += fmt::format("cwd       {}\n", job.spec.cwd.value_or("inherited"));
}

void add_task(std::string& out, const task::Task& task, const Variables& job_environment) {
  const task::ChildSetup& setup = task.command().setup;
  out += fmt::format("\ntask {} (local {})\n  cpus    {}\n", task.rank(), task.local_id(), cpus_of(setup.cpus));
  for (const auto& limit : setup.limits) {
    auto name = task::limit_name(limit.resource);
    out += fmt::format("  limit   {} {} (hard {})\n",
                       name ? std::string(*name) : fmt::format("limit {}", limit.resource),
                       limit_text(limit.value.rlim_cur), limit_text(limit.value.rlim_max));
  }
  if (setup.oom_score_adj) out += fmt::format("  oom     {}\n", *setup.oom_score_adj);
  if (!setup.new_process_group) out += "  group   of the shell\n";
  if (setup.trace_me) out += "  stopped in exec\n";
  for (const std::string& line : differences(job_environment, variables(task.command().env))) {
    out += fmt::format("  env     {}\n", line);
  }
}

// The values that are no objects, by their dotted paths.
void add_values(const Json& value, const std::string& path, std::map<std::string, Json>& out) {
  if (!value.is_object() || value.empty()) {
    if (!path.empty()) out[path] = value;
    return;
  }
  for (const auto& [name, member] : value.items()) add_values(member, path.empty() ? name : path + '.' + name, out);
}

void add_options(std::string& out, const Json& options, const PlanSources& sources) {
  std::map<std::string, Json> all, jobspec, given;
  add_values(options, "", all);
  add_values(sources.jobspec, "", jobspec);
  add_values(sources.given, "", given);
  out += "\noptions, and where they come from\n";
  for (const auto& [path, value] : all) {
    auto is_in = [&](const auto& values) {
      auto found = values.find(path);
      return found != values.end() && found->second == value;
    };
    const char* source = is_in(jobspec) ? "jobspec" : is_in(given) ? "-o" : "initrc or plugin";
    out += fmt::format("  {:<16} {}={}\n", source, path, dump_json(value));
  }
}

void add_plugins(std::string& out, plugin::Host& host) {
  out += "\nplugins, in order\n";
  for (const auto& plugin : host.stack().plugins()) {
    std::string topics;
    for (const auto& each : plugin->subscriptions()) {
      if (each.handler) topics += (topics.empty() ? "" : " ") + each.topic;
    }
    out += fmt::format("  {:<20} {:<8} {}\n", plugin->name(), plugin->origin(), topics);
  }
}

}  // namespace

std::string explain(plugin::Host& host, const PlanSources& sources) {
  std::string out;
  add_job(out, host);
  Variables given;
  for (const auto& [name, value] : host.job().spec.environment) given.insert_or_assign(name, value);
  Variables all = variables(host.environment());
  out += "\nenvironment, against the jobspec's\n";
  for (const std::string& line : differences(given, all)) out += fmt::format("  {}\n", line);
  for (const auto& task : host.tasks()) add_task(out, *task, all);
  add_options(out, host.options().json(), sources);
  add_plugins(out, host);
  out += "\nfiles that were read\n";
  for (const std::string& file : sources.files) out += fmt::format("  {}\n", file);
  return out;
}

std::string explain_plugins(const plugin::Stack& stack, const std::set<std::string>& builtins,
                            const std::vector<std::string>& files) {
  Json list = Json::array();
  for (const auto& plugin : stack.plugins()) {
    Json topics = Json::array();
    for (const auto& each : plugin->subscriptions()) {
      if (each.handler) topics.push_back(each.topic);
    }
    bool replaces = plugin->origin() != "builtin" && builtins.contains(plugin->name());
    list.push_back({{"name", plugin->name()},
                    {"origin", plugin->origin()},
                    {"topics", std::move(topics)},
                    {"replaces_builtin", replaces}});
  }
  return dump_json({{"plugins", std::move(list)}, {"read", files}}) + '\n';
}

}  // namespace nacre::core
