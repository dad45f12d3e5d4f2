// SPDX-License-Identifier: Apache-2.0
//
// A machine as the kernel would show it: a directory tree with sys/devices/system/cpu and .../node, for our own
// reading and, by HWLOC_FSROOT, for hwloc's.
#pragma once

#include "value/idset.hpp"

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
class MachineFiles {
 public:
  explicit MachineFiles(const Machine& machine);
  ~MachineFiles();
  MachineFiles(const MachineFiles&) = delete;
  MachineFiles& operator=(const MachineFiles&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] std::string system() const { return root_ + "/sys/devices/system"; }
  [[nodiscard]] value::Idset online() const { return online_; }

 private:
  std::string root_;
  value::Idset online_;
};

// Sets a variable of this process as long as it lives; nullptr: unsets it.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const char* value);
  ~ScopedVariable();
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
  std::string old_;
  bool had_ = false;
};

// "0,4" for {0, 4}, to compare with literal expectations.
std::vector<std::string> texts(const Machine::Sets& sets);
value::Idset set(std::string_view text);  // parses one set

}  // namespace nacre::kit
