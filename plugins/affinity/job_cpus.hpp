// SPDX-License-Identifier: Apache-2.0
//
// Which cpus of this node are the job's. R names cores by hwloc's logical index; what the kernel takes is cpus by
// its own numbers.
//
// The indexes of R count the cores of the node that this process's cgroup does not exclude, as hwloc counts them. A
// shell that is confined, by its cgroup or by sched_setaffinity(2), to exactly as many cores as R gives the job was
// confined to the job's cores: these it takes, whatever R calls them. In any other case the job's cores are those
// of R, without the cpus that the shell may not use.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "plugin/host.hpp"
#include "task/cpu_rights.hpp"
#include "task/cpu_topology.hpp"

namespace nacre::plugins {

using task::CpuRights;
using task::mask_of;
using task::one_cpu_a_core;
using task::read_cores;
using task::read_cpu_rights;

// The cpus of each core of the job that the shell may use, in the order of `ids`, which are those of R. `cores`:
// all online ones, in logical order. An error if there is no core of an id, or if none of the cores may be used.
[[nodiscard]] Result<std::vector<value::Idset>> pick_cores(const value::Idset& ids,
                                                           const std::vector<value::Idset>& cores,
                                                           const CpuRights& rights);

// The same for the host's job on this machine. Where the kernel's files leave the order of the cores open, the
// plugin stack is asked: the topic `hwloc.cores` gives {"cores": [idset of cpus, ...]}.
[[nodiscard]] Result<std::vector<value::Idset>> job_cores(plugin::Host& host, const CpuRights& rights);

// All cpus of the job's cores. Cheaper, where these are all cores of the node.
[[nodiscard]] Result<value::Idset> job_cpus(plugin::Host& host, const CpuRights& rights);

}  // namespace nacre::plugins
