// SPDX-License-Identifier: Apache-2.0
//
// The builtin plugins, a file or a folder each; see nacre-shell-options(7) for what they do. Each gets the Host
// that every plugin gets. None reads its options before shell.init, so that an initrc or a loaded plugin may set
// them.
#pragma once

#include "plugin/host.hpp"

namespace nacre::plugins {

using PluginPtr = std::unique_ptr<plugin::Plugin>;

PluginPtr make_batch(plugin::Host& host);
PluginPtr make_container(plugin::Host& host);
PluginPtr make_control(plugin::Host& host);
PluginPtr make_coprocess(plugin::Host& host);
PluginPtr make_cpu_affinity(plugin::Host& host);
PluginPtr make_doctor(plugin::Host& host);
PluginPtr make_elastic(plugin::Host& host);
PluginPtr make_events(plugin::Host& host);
PluginPtr make_exit_notify(plugin::Host& host);
PluginPtr make_exit_on_error(plugin::Host& host);
PluginPtr make_exit_report(plugin::Host& host);
PluginPtr make_exit_timeout(plugin::Host& host);
PluginPtr make_files(plugin::Host& host);
PluginPtr make_gpu_affinity(plugin::Host& host);
PluginPtr make_health(plugin::Host& host);
PluginPtr make_hooks(plugin::Host& host);
PluginPtr make_hwloc(plugin::Host& host);
PluginPtr make_input(plugin::Host& host);
PluginPtr make_log(plugin::Host& host);
PluginPtr make_mem_affinity(plugin::Host& host);
PluginPtr make_multi_prog(plugin::Host& host);
PluginPtr make_mustache(plugin::Host& host);
PluginPtr make_nic_affinity(plugin::Host& host);
PluginPtr make_oom(plugin::Host& host);
PluginPtr make_output(plugin::Host& host);
PluginPtr make_pmi(plugin::Host& host);
PluginPtr make_pty(plugin::Host& host);
PluginPtr make_rehearse(plugin::Host& host);
PluginPtr make_rlimit(plugin::Host& host);
PluginPtr make_scheduling(plugin::Host& host);
PluginPtr make_signal(plugin::Host& host);
PluginPtr make_slurm_variables(plugin::Host& host);
// The log's sink that is silent where an instance of Flux takes messages in its store.
inline constexpr const char* kStandardErrorSink = "stderr";

// For a job without other output: writes messages, as its output, to the store of its instance, and waits for that.
// False: the store has not taken them.
bool write_guest_output(broker::Instance& instance, const std::vector<LogEntry>& messages);

// An announcement: the standard input of the tasks with these ranks, an idset, is over.
inline constexpr std::string_view kInputEnd = "input.end";

PluginPtr make_instance(plugin::Host& host);
PluginPtr make_stage_in(plugin::Host& host);
PluginPtr make_stop_tasks_in_exec(plugin::Host& host);
PluginPtr make_sysmon(plugin::Host& host);
PluginPtr make_taskmap(plugin::Host& host);
PluginPtr make_time_limit(plugin::Host& host);
PluginPtr make_timeline(plugin::Host& host);
PluginPtr make_tmpdir(plugin::Host& host);
PluginPtr make_torch(plugin::Host& host);
PluginPtr make_usage(plugin::Host& host);
PluginPtr make_wrap(plugin::Host& host);

// Whether the option cpu-affinity binds each task to whole cores of its own; false if the option is wrong, which
// the plugin reports.
[[nodiscard]] bool binds_to_own_cores(const job::Options& options);

// Pushes all builtins, in the order of the table in builtins.cpp.
void load_builtins(plugin::Host& host);

// A message without what only tells its place in nacre: which of the loaded builtin plugins has failed in which
// topic, and "exec: ", the type of most exceptions.
[[nodiscard]] std::string without_origin(std::string message);

// Loads, once no option can change any more, plugins of nacre that only some jobs ask for: `pmix`, for -o pmi=pmix,
// from the searchpath. An error if it is not there.
Result<void> load_on_request(plugin::Host& host);

// Whether the job's program is one of MPI, as far as its file shows, or has a PMIx server.
[[nodiscard]] bool is_of_mpi(plugin::Host& host);

}  // namespace nacre::plugins
