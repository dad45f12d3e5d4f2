// SPDX-License-Identifier: Apache-2.0
//
// The cpus of this node: which cores they make, and which of them this process may use; memory policies.
#pragma once

#include <sys/types.h>

#include "task/command.hpp"
#include "value/idset.hpp"

namespace nacre::task {

// The cores of this node and their cpus, from a few small files of the kernel: a full discovery would cost every
// job several milliseconds. Cpus have the kernel's numbers.
inline constexpr const char* kSystemDirectory = "/sys/devices/system";

[[nodiscard]] Result<value::Idset> read_online_cpus(const std::string& system = kSystemDirectory);

// The cores, and what some of them share: each as sets of cpus, in the order of their first cores. Sets of one kind
// do not overlap; sets of different kinds are nested. A kind of which nothing is known has no sets.
struct CpuTopology {
  struct Numa {
    value::Idset::Id id = 0;  // the kernel's
    value::Idset cpus;        // the nearest ones; empty: there are none
    bool has_memory = true;
  };

  std::vector<value::Idset> cores;  // by logical index, see read_cores
  std::vector<value::Idset> l3s;
  std::vector<Numa> numas;
  std::vector<value::Idset> packages;
};

// Whether each online cpu is a core of its own. Also false if the kernel does not report it.
[[nodiscard]] bool one_cpu_a_core(const value::Idset& online, const std::string& system = kSystemDirectory);

// The online cpus of each core, by its first cpu: from a file of the kernel's for each core, or from two files if
// none has threads.
Result<std::vector<value::Idset>> read_unordered_cores(const value::Idset& online,
                                                       const std::string& system = kSystemDirectory);

// The online cpus of each core, in the order of hwloc's logical indexes, which are the core ids of R: depth first
// through the tree of packages, NUMA nodes, caches and the like, siblings by their lowest cpu. None if these files
// do not give that order for certain: if sets overlap without being nested, or if distances between NUMA nodes may
// make groups that are not neighbours. Then ask hwloc.
Result<std::optional<std::vector<value::Idset>>> read_cores(const value::Idset& online,
                                                            const std::string& system = kSystemDirectory);

// As read_cores(), with what the cores share.
Result<std::optional<CpuTopology>> read_cpu_topology(const value::Idset& online,
                                                     const std::string& system = kSystemDirectory);

// The cpus of this node that this process may use, by the kernel's numbers.
struct CpuRights {
  value::Idset online;
  value::Idset cgroup;   // of these, the ones that sched_setaffinity(2) would accept
  value::Idset allowed;  // of these, the ones set now: those that this process, and so its tasks, may use
};

// The rights of the calling thread. If the kernel's files about cpus are missing, as in a container without /sys,
// only the cpus that the cgroup grants are known to be online.
[[nodiscard]] Result<CpuRights> read_cpu_rights(const std::string& system = kSystemDirectory);

// For each core the cpus that are in `cpus`, without the cores that have none there.
[[nodiscard]] std::vector<value::Idset> cores_within(const std::vector<value::Idset>& cores,
                                                     const value::Idset& cpus);

// The cpus that the first thread of another process may use now; 0: this thread. Empty: there is no such process.
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
