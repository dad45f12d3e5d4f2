// SPDX-License-Identifier: Apache-2.0
//
// The cores of this node and their cpus, from a few small files of the kernel: a full discovery would cost every
// job several milliseconds. Cpus have the kernel's numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "value/idset.hpp"

namespace nacre::task {

inline constexpr const char* kSystemDirectory = "/sys/devices/system";

[[nodiscard]] Result<value::Idset> read_online_cpus(const std::string& system = kSystemDirectory);

// Whether each online cpu is a core of its own. Also false if the kernel does not report it.
[[nodiscard]] bool one_cpu_a_core(const value::Idset& online, const std::string& system = kSystemDirectory);

// The online cpus of each core, in the order of hwloc's logical indexes, which are the core ids of R: depth first
// through the tree of packages, NUMA nodes, caches and the like, siblings by their lowest cpu. None if these files
// do not give that order for certain: if sets overlap without being nested, or if distances between NUMA nodes may
// make groups that are not neighbours. Then ask hwloc.
Result<std::optional<std::vector<value::Idset>>> read_cores(const value::Idset& online,
                                                            const std::string& system = kSystemDirectory);

}  // namespace nacre::task
