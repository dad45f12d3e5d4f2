// SPDX-License-Identifier: Apache-2.0
//
// Which setting of the kernel forbids this process to trace tasks.
#pragma once

#include <string>

namespace nacre::plugins {

// "kernel.yama.ptrace_scope is 1 there; -o doctor.trace=on allows it for a job"; "": Yama is not there, or forbids
// nothing.
[[nodiscard]] std::string trace_setting(const std::string& scope_file = "/proc/sys/kernel/yama/ptrace_scope");

}  // namespace nacre::plugins
