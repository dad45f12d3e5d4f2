// SPDX-License-Identifier: Apache-2.0
#include "plugins/builtins.hpp"

namespace nacre::plugins {

void load_builtins(plugin::Host& host) {
  for (auto make :
       {make_log,          make_taskmap,      make_pty,          make_input,         make_output,
        make_stage_in,     make_tmpdir,       make_wrap,         make_mustache,      make_hwloc,
        make_cpu_affinity, make_gpu_affinity, make_rlimit,       make_oom,           make_stop_tasks_in_exec,
        make_signal,       make_pmi,          make_exit_timeout, make_exit_on_error, make_coprocess,
        make_sysmon,       make_hooks}) {
    host.stack().push(make(host));
  }
}

}  // namespace nacre::plugins
