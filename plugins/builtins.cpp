// SPDX-License-Identifier: Apache-2.0
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

using Make = PluginPtr (*)(plugin::Host&);

// The order in which each topic reaches the builtins.
// clang-format off
constexpr Make kBuiltins[] = {
    make_log,
    make_taskmap,
    make_pty,  // before input and output, which look at what it gave to a task
    make_input,
    make_output,
    make_stage_in,  // before tmpdir, which removes what this writes to
    make_tmpdir,
    make_files,  // after tmpdir, whose directory it fills
    make_batch,  // before mustache, which renders the words that it has made
    make_multi_prog,  // before wrap, which puts words before its own
    make_wrap,
    make_mustache,
    make_hwloc,
    make_cpu_affinity,
    make_mem_affinity,  // after cpu-affinity, which makes the plan, as are the next two
    make_gpu_affinity,
    make_nic_affinity,
    make_torch,  // after gpu-affinity, which decides what a task sees
    make_rlimit,
    make_oom,
    make_scheduling,
    make_stop_tasks_in_exec,
    make_signal,
    make_time_limit,
    make_pmi,  // before exit-timeout and exit-on-error: it knows more of a task's end
    make_exit_timeout,
    make_exit_on_error,
    make_exit_report,
    make_exit_notify,
    make_usage,  // after output, which knows what a task has written
    make_timeline,
    make_events,  // after exit-report and exit-notify: the end of the job is the last event
    make_control,  // after exit-report, usage and timeline, of which it keeps what they have found
    make_doctor,
    make_coprocess,
    make_elastic,
    make_sysmon,
    make_rehearse,
    make_hooks,  // after those that set variables of tasks
};
// clang-format on

}  // namespace

void load_builtins(plugin::Host& host) {
  for (Make make : kBuiltins) host.stack().push(make(host));
}

}  // namespace nacre::plugins
