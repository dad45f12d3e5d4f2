// SPDX-License-Identifier: Apache-2.0
//
// The plugin sysmon over other files than those of this machine: for tests.
#pragma once

#include "plugins/builtins.hpp"
#include "plugins/sysmon/job_usage.hpp"

namespace nacre::plugins {

// As make_sysmon(), of the job of the shell `shell`; `root` as JobUsage::of_shell() takes it.
PluginPtr make_sysmon_of(plugin::Host& host, pid_t shell, const std::string& root);

}  // namespace nacre::plugins
