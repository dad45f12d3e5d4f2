// SPDX-License-Identifier: Apache-2.0
//
// The plugin sysmon with other files than this machine's, for tests.
#pragma once

#include "plugins/builtins.hpp"
#include "plugins/sysmon/job_usage.hpp"

namespace nacre::plugins {

// Like make_sysmon(), for the job of the shell `shell`; `root` as in JobUsage::of_shell().
PluginPtr make_sysmon_of(plugin::Host& host, pid_t shell, const std::string& root);

}  // namespace nacre::plugins
