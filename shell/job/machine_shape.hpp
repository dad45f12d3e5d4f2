// SPDX-License-Identifier: Apache-2.0
//
// A made-up machine (`nacre run --pretend`): a number of nodes that are all alike, by their shape. Pure.
//
//   NODESx[PACKAGESp]CORESc[THREADSt][GPUSg]     64x4c2g, 8x2p16c2t4g
//
// CORES are those of a package, THREADS those of a core, GPUS those of a node.
#pragma once

#include "base/json_fwd.hpp"
#include "base/result.hpp"

namespace nacre::job {

struct MachineShape {
  static constexpr std::uint32_t kMaxNodes = 1024;
  static constexpr std::uint32_t kMaxPackages = 16;
  static constexpr std::uint32_t kMaxCores = 1024;  // of a package
  static constexpr std::uint32_t kMaxThreads = 8;
  static constexpr std::uint32_t kMaxGpus = 64;

  std::uint32_t nodes = 1, packages = 1, cores = 1, threads = 1, gpus = 0;

  // An error has the text, the place in it, and what was expected there.
  static Result<MachineShape> parse(std::string_view text);

  [[nodiscard]] std::uint32_t cores_of_node() const { return packages * cores; }
  // "4 cores and 2 gpus"; "2 packages of 8 cores of 2 threads, and no gpus".
  [[nodiscard]] std::string node_words() const;
  // The description of one node for hwloc_topology_set_synthetic(), each package with its NUMA node.
  [[nodiscard]] std::string synthetic() const;
  // The name of a node: "pretend3".
  [[nodiscard]] static std::string host(std::uint32_t node) { return fmt::format("pretend{}", node); }
  // R (RFC 20) of the first `count` nodes, with all of their cores and gpus.
  [[nodiscard]] Json resources(std::uint32_t count) const;

  bool operator==(const MachineShape&) const = default;
};

}  // namespace nacre::job
