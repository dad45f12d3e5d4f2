// SPDX-License-Identifier: Apache-2.0
//
// A node as placements see it: cores, what they share, and where gpus and network cards are. A value, made of the
// kernel's files, of hwloc, or of the JSON that the topic `hwloc.topology` returns:
//
//   {"cores": [CPUS, ...], "l3s": [CPUS, ...], "packages": [CPUS, ...], "numas": [{"id": N, "cpus": CPUS,
//    "memory": BOOL}, ...], "gpus": [DEVICE, ...], "nics": [DEVICE, ...]}
//
// with CPUS an idset of the kernel's numbers, DEVICE {"name": TEXT, "bus": TEXT, "cpus": CPUS, "bridges": [N,
// ...]}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "task/cpu_topology.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

struct Device {
  std::string name;                    // of a network card: "mlx5_0:1" with the port of an RDMA device, or "eth0"
  std::string bus;                     // on PCI: "0000:07:00.0"
  value::Idset cpus;                   // those that are nearest to it; all of the node: nothing is known
  std::vector<std::uint64_t> bridges;  // between it and the cpus, the host bridge first; by any numbers
};

struct NodeTopology {
  task::CpuTopology cpus;
  std::vector<Device> gpus;  // by their ids in R: the order of PCI
  std::vector<Device> nics;  // RDMA devices, or network interfaces if there are none

  [[nodiscard]] value::Idset all_cpus() const;
};

[[nodiscard]] Json to_json(const NodeTopology& topology);
Result<NodeTopology> node_topology_of(const JsonAt& json);

}  // namespace nacre::plugins
