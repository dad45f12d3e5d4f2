// SPDX-License-Identifier: Apache-2.0
//
// The cpus of this node that this process may use, by the kernel's numbers.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "task/command.hpp"
#include "task/cpu_topology.hpp"
#include "value/idset.hpp"

namespace nacre::task {

struct CpuRights {
  value::Idset online;
  value::Idset cgroup;   // of these, the ones that sched_setaffinity(2) would accept
  value::Idset allowed;  // of these, the ones set now: those that this process, and so its tasks, may use
};

// Of the calling thread. Where the kernel's files about cpus are missing, as in a container without /sys, those
// that the cgroup grants are all that are known to be online.
[[nodiscard]] Result<CpuRights> read_cpu_rights(const std::string& system = kSystemDirectory);

// For each core the cpus that are in `cpus`, without the cores that have none there.
[[nodiscard]] std::vector<value::Idset> cores_within(const std::vector<value::Idset>& cores,
                                                     const value::Idset& cpus);

// Those that the first thread of another process may use now; 0: this thread. Empty: there is no such process.
[[nodiscard]] value::Idset cpus_allowed_to(pid_t process);

[[nodiscard]] CpuMask mask_of(const value::Idset& cpus);
[[nodiscard]] value::Idset set_of(const CpuMask& mask);

// Memory policies, which say on which NUMA nodes a process gets its memory: see set_mempolicy(2).

// `name`: bind (memory of these nodes only), prefer (of others when these are full) or interleave (page by page of
// each). None for other names. `nodes`: not empty. To prefer several nodes needs Linux 5.15; older kernels refuse.
[[nodiscard]] std::optional<MemoryPolicy> memory_policy(std::string_view name, const value::Idset& nodes);

// "bind 0-1".
[[nodiscard]] std::string memory_policy_text(const MemoryPolicy& policy);

}  // namespace nacre::task
