// SPDX-License-Identifier: Apache-2.0
//
// This machine as hwloc sees it. libhwloc is loaded together with a topology, so that jobs that need none do not
// pay for it.
//
// Loading takes milliseconds, and much longer if hwloc has plugins that ask drivers for devices. hwloc's own
// variables, such as HWLOC_COMPONENTS, have effect as set in the shell's environment.
#pragma once

#include "base/json.hpp"
#include "task/cpus.hpp"

namespace nacre::plugins {

// A node as placements see it: cores, what they share, and where gpus and network cards are. A value, made of the
// kernel's files, of hwloc, or of the JSON that the topic `hwloc.topology` returns:
//
//   {"cores": [CPUS, ...], "l3s": [CPUS, ...], "packages": [CPUS, ...], "numas": [{"id": N, "cpus": CPUS,
//    "memory": BOOL}, ...], "gpus": [DEVICE, ...], "nics": [DEVICE, ...]}
//
// with CPUS an idset of the kernel's numbers, DEVICE {"name": TEXT, "bus": TEXT, "cpus": CPUS, "bridges": [N,
// ...]}.
struct Device {
  std::string name;                    // a network card's: "mlx5_0:1" with the port of an RDMA device, or "eth0"
  std::string bus;                     // on PCI: "0000:07:00.0"
  value::Idset cpus;                   // the cpus nearest to it; all of the node: nothing is known
  std::vector<std::uint64_t> bridges;  // between it and the cpus, the host bridge first; the numbers only have to
                                       // be different
};

struct NodeTopology {
  task::CpuTopology cpus;
  std::vector<Device> gpus;  // by their ids in R: the order of PCI
  std::vector<Device> nics;  // RDMA devices, or network interfaces if there are none

  [[nodiscard]] value::Idset all_cpus() const;
  // False: no part of the node is nearer to one cpu than to another.
  [[nodiscard]] bool has_parts() const;
};

[[nodiscard]] Json to_json(const NodeTopology& topology);
Result<NodeTopology> node_topology_of(const JsonAt& json);

class HwlocTopology {
 public:
  enum class Devices {
    none,
    important,  // PCI devices such as network cards and gpus, as lstopo shows them
  };

  // `file`: XML of hwloc, instead of this machine; none: what HWLOC_XMLFILE of the shell's environment names, or
  // this machine.
  static Result<HwlocTopology> load(Devices devices, const std::optional<std::string>& file = std::nullopt);
  // A made-up topology without devices; `description`: as for hwloc_topology_set_synthetic().
  static Result<HwlocTopology> synthetic(const std::string& description);
  HwlocTopology(HwlocTopology&&) noexcept;
  HwlocTopology& operator=(HwlocTopology&&) noexcept;
  ~HwlocTopology();

  // The cpus of each core, by logical index, without those that the cgroup excludes. An error if hwloc sees no
  // cores.
  [[nodiscard]] Result<std::vector<value::Idset>> cores() const;

  // All that placements depend on; fails as cores() does. With Devices::none it has no gpus and no cards. Gpus are
  // those of NVIDIA; if there are none, AMD's; if there are none of these, Intel's that are no part of a processor.
  // On this machine cards that are down, and NVIDIA's gpus that this process may not open, are left out.
  [[nodiscard]] Result<NodeTopology> node() const;

  // Drops all objects that have none of these cpus. Keeps devices.
  Result<void> restrict_to(const value::Idset& cpus);

  // XML of hwloc 2; write_xml() makes a file for HWLOC_XMLFILE.
  [[nodiscard]] Result<std::string> xml() const;
  Result<void> write_xml(const std::string& path) const;

 private:
  struct Loaded;
  explicit HwlocTopology(std::unique_ptr<Loaded> loaded);
  static Result<std::unique_ptr<Loaded>> create();

  std::unique_ptr<Loaded> loaded_;
};

}  // namespace nacre::plugins
