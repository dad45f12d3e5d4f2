// SPDX-License-Identifier: Apache-2.0
//
// Who descends from whom, by proc(5).
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

namespace nacre::event {

enum class Lookup {
  listed,  // /proc/PID/task/TID/children: cost by the descendants; not in every kernel (CONFIG_PROC_CHILDREN)
  scan,    // /proc/PID/stat of every process: cost by the processes of the node
};

[[nodiscard]] Lookup best_lookup();

// The processes below `ancestor` that have not ended, children before their parents, but for those `without` and what is below them.
// Zombies are not among them, but a process is whose first thread has ended while others run.
[[nodiscard]] std::vector<pid_t> descendants_of(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without = {});

}  // namespace nacre::event
