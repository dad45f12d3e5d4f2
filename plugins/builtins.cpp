// SPDX-License-Identifier: Apache-2.0
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

struct Builtin {
  PluginPtr (*make)(plugin::Host&);
  bool is_vital = true;
};

// The plugin only tells what the job does: if it fails, the job goes on without it.
constexpr bool kTells = false;

// The order in which each topic reaches the builtins.
// clang-format off
constexpr Builtin kBuiltins[] = {
    {make_log},
    {make_health},
    {make_instance},  // before the plugins that use what it knows of the instance
    {make_taskmap},
    {make_pty},  // before input and output, which look at what it gave to a task
    {make_input},
    {make_output},
    {make_stage_in},  // before tmpdir, which removes what this writes to
    {make_tmpdir},
    {make_files},  // after tmpdir, whose directory it fills
    {make_batch},  // before mustache, which renders the words that batch has made
    {make_multi_prog},  // before wrap, which puts words before its own
    {make_wrap},
    {make_mustache},
    {make_cpu_affinity},
    {make_hwloc},  // after cpu-affinity, which chooses the cores to which its file is restricted
    {make_mem_affinity},  // after cpu-affinity, which makes the plan, as are the next two
    {make_gpu_affinity},
    {make_nic_affinity},
    {make_slurm_variables},
    {make_torch},  // after gpu-affinity, which decides what a task sees
    {make_rlimit},
    {make_oom},
    {make_scheduling},
    {make_stop_tasks_in_exec},
    {make_signal},
    {make_time_limit},
    {make_pmi},  // before exit-timeout and exit-on-error, as it knows more of a task's end
    {make_exit_timeout},
    {make_exit_on_error},
    {make_exit_report, kTells},
    {make_exit_notify},
    {make_usage, kTells},  // after output, which knows what a task has written
    {make_timeline, kTells},
    {make_events, kTells},  // after exit-report and exit-notify: the end of the job is the last event
    {make_control, kTells},  // after exit-report, usage and timeline, whose findings it keeps
    {make_doctor, kTells},
    {make_coprocess},
    {make_elastic},
    {make_sysmon, kTells},
    {make_rehearse},
    {make_hooks},  // after those that set variables of tasks
    {make_container},  // after all that change commands, which it has run in a container
};
// clang-format on

Component components[std::size(kBuiltins)];

bool is_builtin(std::string_view name) {
  return std::any_of(std::begin(components), std::end(components),
                     [&](const Component& each) { return each.name == name; });
}

}  // namespace

std::string without_origin(std::string message) {
  constexpr std::string_view kException = "exec: ", kPlugin = "plugin '", kBehindName = "': ", kBehindTopic = ": ";
  if (message.starts_with(kException)) message.erase(0, kException.size());
  for (std::size_t at = message.find(kPlugin); at != std::string::npos; at = message.find(kPlugin, at + 1)) {
    const std::size_t name = at + kPlugin.size();
    const std::size_t topic = message.find(kBehindName, name);
    if (topic == std::string::npos || !is_builtin(message.substr(name, topic - name))) continue;
    const std::size_t end = message.find(kBehindTopic, topic + kBehindName.size());
    const std::string_view named = std::string_view(message).substr(topic + kBehindName.size());
    // "taskmap.manual" is also what the user has asked for.
    const bool is_phase = named.starts_with("shell.") || named.starts_with("task.");
    const std::size_t left =
        is_phase && end != std::string::npos ? end + kBehindTopic.size() : topic + kBehindName.size();
    message.erase(at, left - at);
  }
  return message;
}

void load_builtins(plugin::Host& host) {
  Component* component = components;
  for (const Builtin& each : kBuiltins) {
    component->is_vital = each.is_vital;
    const InComponent in_component(component);
    PluginPtr made = each.make(host);
    component->name = made->name();
    made->set_component(component++);
    host.stack().push(std::move(made));
  }
}

}  // namespace nacre::plugins
