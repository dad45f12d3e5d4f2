// SPDX-License-Identifier: Apache-2.0
//
// The job's cpus on this node. R has cores by hwloc's logical index; the kernel has cpus by its own numbers.
//
// The indexes of R count the cores of the node that this process's cgroup does not exclude, in hwloc's order. If a
// shell is confined, by its cgroup or by sched_setaffinity(2), to exactly as many cores as R gives the job, then
// it was confined to the job's cores: it uses these, whatever R calls them. Otherwise the job's cores are those of
// R, without the cpus that the shell may not use.
#pragma once

#include "job/machine_shape.hpp"
#include "plugin/host.hpp"
#include "plugins/affinity/hwloc.hpp"
#include "task/cpus.hpp"

namespace nacre::plugins {

using task::CpuRights;
using task::mask_of;
using task::one_cpu_a_core;
using task::read_cores;
using task::read_cpu_rights;

// For each core of the job, the cpus that the shell may use, in the order of `ids`, which are R's. `cores`: all
// online cores, in logical order. An error if an id has no core, or if none of the cores may be used.
[[nodiscard]] Result<std::vector<value::Idset>> pick_cores(const value::Idset& ids,
                                                           const std::vector<value::Idset>& cores,
                                                           const CpuRights& rights);

// The file that the job's environment names as the node's topology.
struct TopologyFile {
  std::string variable;  // FLUX_HWLOC_XMLFILE, else HWLOC_XMLFILE
  std::string path;
};
[[nodiscard]] std::optional<TopologyFile> topology_file(plugin::Host& host);

// The cpus that a shell could use on the machine of FLUX_HWLOC_XMLFILE, or a made-up one; none: the machine is
// neither.
[[nodiscard]] Result<std::optional<CpuRights>> rights_in_file(plugin::Host& host);

// What this shell may use of its node; of a made-up node, all.
[[nodiscard]] Result<CpuRights> node_rights(plugin::Host& host);

// The same for the host's job on this machine. If FLUX_HWLOC_XMLFILE is set, or the kernel's files leave the order
// of the cores open, this calls the topic `hwloc.cores`, to which a plugin answers {"cores": [idset of cpus,
// ...]}.
[[nodiscard]] Result<std::vector<value::Idset>> job_cores(plugin::Host& host, const CpuRights& rights);

// This machine, or that of FLUX_HWLOC_XMLFILE. It is read from the kernel's files if `with_devices` is false and
// they are enough; otherwise by the topic `hwloc.topology`.
[[nodiscard]] Result<NodeTopology> read_node(plugin::Host& host, const CpuRights& rights, bool with_devices);

// All cpus of the job's cores. Costs less if these are all cores of the node.
[[nodiscard]] Result<value::Idset> job_cpus(plugin::Host& host, const CpuRights& rights);

// The made-up machine that the job's nodes are taken for (`nacre run --pretend`): placements are made for it, and
// shown by --explain, but nothing of the tasks is bound, as this machine is another one.

// None: the nodes are real.
[[nodiscard]] Result<std::optional<job::MachineShape>> pretended_machine(const job::Options& options);

}  // namespace nacre::plugins
