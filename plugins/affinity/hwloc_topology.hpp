// SPDX-License-Identifier: Apache-2.0
//
// This machine as hwloc sees it. libhwloc is loaded when a topology is, so that jobs that need none do not pay for
// it.
//
// Loading takes milliseconds, and much more where hwloc has plugins that ask drivers for devices. hwloc's own
// variables, such as HWLOC_XMLFILE and HWLOC_COMPONENTS, are heeded as the shell's environment has them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class HwlocTopology {
 public:
  enum class Devices {
    none,
    important
  };  // the latter: PCI devices such as network cards and gpus, as lstopo shows

  static Result<HwlocTopology> load(Devices devices);
  HwlocTopology(HwlocTopology&&) noexcept;
  HwlocTopology& operator=(HwlocTopology&&) noexcept;
  ~HwlocTopology();

  // The cpus of each core, by logical index. Those that the cgroup excludes are left out. An error if hwloc sees no
  // cores.
  [[nodiscard]] Result<std::vector<value::Idset>> cores() const;

  // Drops all that has none of these cpus. Devices are kept.
  Result<void> restrict_to(const value::Idset& cpus);

  // As XML of hwloc 2; in a file, for HWLOC_XMLFILE.
  [[nodiscard]] Result<std::string> xml() const;
  Result<void> write_xml(const std::string& path) const;

 private:
  struct Loaded;
  explicit HwlocTopology(std::unique_ptr<Loaded> loaded);

  std::unique_ptr<Loaded> loaded_;
};

}  // namespace nacre::plugins
