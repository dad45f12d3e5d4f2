// SPDX-License-Identifier: Apache-2.0
//
// A machine as the kernel would show it: a directory tree with sys/devices/system/cpu and .../node, for our own
// reading and, by HWLOC_FSROOT, for hwloc's.
#pragma once

#include "folder.hpp"
#include "value/idset.hpp"
#include "variable.hpp"

namespace nacre::kit {

struct Machine {
  using Sets = std::vector<value::Idset>;

  Sets cores;                               // each by its cpus; all of them are online
  Sets packages, dies, clusters, nodes;     // may be empty: the kernel does not tell
  Sets l2, l3;                              // caches
  std::vector<std::vector<int>> distances;  // between the NUMA nodes
  bool old_names = false;                   // those of kernels before 5.2

  // By numbers: packages, NUMA nodes in each, L3 caches in each of those, cores, threads. `order` is a permutation
  // of "pnlct": the one that counts slowest over the cpu numbers comes first.
  static Machine regular(const std::vector<unsigned>& counts, const std::string& order);
  // Without these cpus.
  [[nodiscard]] Machine without(const value::Idset& cpus) const;
};

// The files, in a directory of its own, as long as it lives.
class MachineFiles : public TemporaryFolder {
 public:
  explicit MachineFiles(const Machine& machine);

  [[nodiscard]] std::string system() const { return path("sys/devices/system"); }
  [[nodiscard]] value::Idset online() const { return online_; }

 private:
  value::Idset online_;
};

// "0,4" for {0, 4}, to compare with literal expectations.
std::vector<std::string> texts(const Machine::Sets& sets);
value::Idset set(std::string_view text);  // parses one set

}  // namespace nacre::kit
