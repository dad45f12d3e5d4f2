// SPDX-License-Identifier: Apache-2.0
//
// The descendants of a process, by proc(5).
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

namespace nacre::event {

enum class Lookup {
  listed,  // /proc/PID/task/TID/children: costs by the descendants; not in every kernel (CONFIG_PROC_CHILDREN)
  scan,    // /proc/PID/stat of every process: costs by the processes of the node
};

[[nodiscard]] Lookup best_lookup();

// The processes below `ancestor` that have not ended, children before their parents, except those `without` and the
// ones below them. Zombies are left out, but not a process whose first thread has ended while others run. Where
// this process has no descriptor left a child of it looks, which has.
[[nodiscard]] std::vector<pid_t> descendants_of(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without = {});

}  // namespace nacre::event
