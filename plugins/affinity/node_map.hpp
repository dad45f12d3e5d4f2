// SPDX-License-Identifier: Apache-2.0
//
// A node's sets by cpu, for fast answers: in which core, l3, NUMA node and package a cpu is, and how near a device
// is to a task's cpus.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plugins/affinity/node_topology.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

// Kinds of sets, the inner ones first.
enum class SetKind { core, l3, numa, package };
inline constexpr SetKind kSetKinds[] = {SetKind::core, SetKind::l3, SetKind::numa, SetKind::package};

// How near a device is to cpus, the nearest first.
enum class Nearness { local, partly, same_package, unknown, elsewhere };
inline constexpr Nearness kNearness[] = {Nearness::local, Nearness::partly, Nearness::same_package,
                                         Nearness::unknown, Nearness::elsewhere};

class NodeMap {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  explicit NodeMap(const NodeTopology& topology);

  // The index of the set of that kind that has this cpu, in the topology's order; kNone.
  [[nodiscard]] std::size_t index(SetKind kind, value::Idset::Id cpu) const;
  [[nodiscard]] bool has(SetKind kind) const { return !by_cpu_[static_cast<std::size_t>(kind)].empty(); }
  // The numbers that words have, of all sets of that kind that have one of these cpus.
  [[nodiscard]] value::Idset numbers(SetKind kind, const value::Idset& cpus) const;
  // "l3 0, numa 0, package 0"; "over numa 0-1, in package 0" if there are several of a kind.
  [[nodiscard]] std::string where(const value::Idset& cpus) const;

  [[nodiscard]] Nearness nearness(const value::Idset& cpus, const Device& device) const;
  // "at numa 0", or else "at package 0"; "anywhere" if nothing is known.
  [[nodiscard]] std::string place_of(const Device& device) const;

 private:
  [[nodiscard]] bool is_unknown(const Device& device) const { return device.cpus.empty() || device.cpus == all_; }

  const NodeTopology& topology_;
  std::vector<std::vector<std::size_t>> by_cpu_;  // by kind; empty: no set of that kind
  value::Idset all_;
  bool has_parts_;  // the node is no single package and NUMA node
};

}  // namespace nacre::plugins
