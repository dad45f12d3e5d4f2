// SPDX-License-Identifier: Apache-2.0
//
// Where each task of a job runs on this node: its cpus, and the memory, gpus and network cards that are near them,
// each with a reason in words. Pure: the decisions follow from the two arguments of place() alone.
//
// Cpus: divide() has the rules. If each task has asked for numbers of cores and gpus, and the gpus are to be the
// closest (or this is preferred), tasks get cores that are near gpus, if there are enough of both. Memory: the NUMA
// nodes of the task's cpus; of several nodes with the same cpus, as with HBM, the first that has memory. Gpus: each
// task gets as many as the others, one more at most; the nearest pairs of a task and a gpu are made first. Network
// cards: all those that are nearest to the task's cpus; among these, those behind the same PCI switch as a gpu of
// the task.
//
// Words call sets by their kind and number: `core`, `l3` and `package` by their order in the topology, which is
// hwloc's logical index, `numa` by the kernel's number.
#pragma once

#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/hwloc.hpp"

namespace nacre::plugins {

struct PlacementRequest {
  enum class Gpus { none, evenly, closest, prefer_closest };

  std::size_t tasks = 0;
  // The cpus of each task, if something else has decided them. Otherwise `cores` are divided: those of the job, in
  // logical order, each as the cpus of it that may be used.
  std::vector<value::Idset> cpus;
  std::string cpus_why;  // with `cpus`
  std::vector<value::Idset> cores;
  CpuLevel level = CpuLevel::core;
  // With `cores`, in units of the level: each task gets exactly this much of its share, if there is enough for all;
  // 0: all of it. The same for gpus.
  std::size_t cpus_each = 0;
  std::size_t gpus_each = 0;
  bool memory = false;
  // evenly: in the order of their ids, wherever they are; prefer_closest: the same, if the node does not tell where
  // all of them are, or if none is nearer to one task than to another.
  Gpus gpus = Gpus::none;
  std::vector<value::Idset::Id> gpu_ids;  // the job's
  bool nics = false;
};

// An empty reason: no option asks for this.
struct PlacedTask {
  value::Idset cpus;
  std::string cpus_why;
  value::Idset memory;
  std::string memory_why;
  std::vector<value::Idset::Id> gpus;
  std::string gpus_why;
  std::vector<std::string> nics;
  std::string nics_why;
};

struct Placement {
  std::vector<PlacedTask> tasks;
  value::Idset unused;            // cpus of the job that no task has; with cpus_each: none
  std::vector<std::size_t> used;  // with cpus_each: the units that tasks have, ascending
};

// An error says which option asks for what, what the node has, and the remedy.
[[nodiscard]] Result<Placement> place(const NodeTopology& topology, const PlacementRequest& request);

}  // namespace nacre::plugins
