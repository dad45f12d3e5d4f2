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

// The cores, and what some of them share: each set by its cpus, in the order of its first core. Sets of one kind
// do not overlap; sets of different kinds are nested. A kind of which nothing is known has no sets.
struct CpuTopology {
  struct Numa {
    value::Idset::Id id = 0;  // the kernel's
    value::Idset cpus;        // those that are nearest to it; empty: none is
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

// The same, with what they share.
Result<std::optional<CpuTopology>> read_cpu_topology(const value::Idset& online,
                                                     const std::string& system = kSystemDirectory);

}  // namespace nacre::task
