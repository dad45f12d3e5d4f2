// SPDX-License-Identifier: Apache-2.0
//
// This machine as hwloc sees it. libhwloc is loaded together with a topology, so that jobs that need none do not
// pay for it.
//
// Loading takes milliseconds, and much longer if hwloc has plugins that ask drivers for devices. hwloc's own
// variables, such as HWLOC_COMPONENTS, have effect as set in the shell's environment.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plugins/affinity/node_topology.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class HwlocTopology {
 public:
  enum class Devices {
    none,
    important,  // PCI devices such as network cards and gpus, as lstopo shows them
  };

  // `file`: XML of hwloc, instead of this machine; none: what HWLOC_XMLFILE of the shell's environment names, or
  // this machine.
  static Result<HwlocTopology> load(Devices devices, const std::optional<std::string>& file = std::nullopt);
  // A made-up one without devices; `description`: of hwloc_topology_set_synthetic().
  static Result<HwlocTopology> synthetic(const std::string& description);
  HwlocTopology(HwlocTopology&&) noexcept;
  HwlocTopology& operator=(HwlocTopology&&) noexcept;
  ~HwlocTopology();

  // The cpus of each core, by logical index, without those that the cgroup excludes. An error if hwloc sees no
  // cores.
  [[nodiscard]] Result<std::vector<value::Idset>> cores() const;

  // All that placements go by; an error as of cores(). With Devices::none it has no gpus and no cards. Gpus are
  // those of NVIDIA, or else AMD's, or else Intel's that are no part of a processor. On this machine cards that
  // are down, and NVIDIA's gpus that this process may not open, are left out.
  [[nodiscard]] Result<NodeTopology> node() const;

  // Drops all that has none of these cpus. Keeps devices.
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
