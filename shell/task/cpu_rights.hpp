// SPDX-License-Identifier: Apache-2.0
//
// Which cpus of this node this process may use, numbered as the kernel does.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "task/command.hpp"
#include "task/cpu_topology.hpp"
#include "value/idset.hpp"

namespace nacre::task {

struct CpuRights {
  value::Idset online;
  value::Idset cgroup;   // of these, what sched_setaffinity(2) would take
  value::Idset allowed;  // of these, what it has been set to: what this process, and so its tasks, may use
};

// Of the calling thread.
[[nodiscard]] Result<CpuRights> read_cpu_rights(const std::string& system = kSystemDirectory);

// What is left of each core within `cpus`, without the cores of which nothing is.
[[nodiscard]] std::vector<value::Idset> cores_within(const std::vector<value::Idset>& cores,
                                                     const value::Idset& cpus);

[[nodiscard]] CpuMask mask_of(const value::Idset& cpus);

}  // namespace nacre::task
