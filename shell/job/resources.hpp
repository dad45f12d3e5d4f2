// SPDX-License-Identifier: Apache-2.0
//
// The job's resources: the resource set R of version 1. Source of the format: Flux RFC 20.
//
// This accepts more than RFC 20 in one point: `nodelist` may be missing, as older tools leave it out. Keys that RFC
// 20 does not have are ignored, as it demands for `scheduling`.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "value/idset.hpp"

namespace nacre::job {

struct NodeResources {
  std::uint32_t broker_rank = 0;  // the execution target id in R
  std::string hostname;           // from nodelist; "" if R has none
  value::Idset cores;             // logical ids on that host
  value::Idset gpus;
  std::vector<std::string> properties;  // in alphabetical order, with what follows an '@'
  // What the node offers beyond that, and the job has not asked for; see Job::take_what_was_asked().
  value::Idset more_cores = {};
  value::Idset more_gpus = {};

  [[nodiscard]] value::Idset all_cores() const { return cores | more_cores; }
  [[nodiscard]] value::Idset all_gpus() const { return gpus | more_gpus; }
  // " on HOSTNAME" for messages; "" without a name.
  [[nodiscard]] std::string on() const { return hostname.empty() ? "" : " on " + hostname; }
};

struct Resources {
  static constexpr std::uint32_t kMaxNodes = std::uint32_t{1} << 20;
  static constexpr std::uint32_t kMaxCoreId = std::uint32_t{1} << 16;  // the largest id on a node; for gpus too
  // These limit the memory that a small text can demand. Over all nodes:
  static constexpr std::uint64_t kMaxRanges = std::uint64_t{1} << 24;      // of core ids and gpu ids
  static constexpr std::uint64_t kMaxProperties = std::uint64_t{1} << 22;  // properties of nodes

  std::vector<NodeResources> nodes;    // not empty; by ascending broker rank; the index is the shell rank
  double starttime = 0;                // seconds since the epoch; 0: not given
  double expiration = 0;               // the same; 0: never
  std::optional<std::uint32_t> slots;  // execution.nslots
  bool is_made = false;                // made of the nodes' offers, as nobody has given an R
  Json document;                       // all of it

  // Errors have the path, such as `execution.R_lite[1].rank: ...`.
  static Result<Resources> parse(std::string_view text);
  static Result<Resources> from_json(Json document);

  // The shell rank of a broker rank.
  [[nodiscard]] std::optional<std::uint32_t> shell_rank(std::uint32_t broker_rank) const;
};

// Adds a node, with a broker rank above all others, to R and to its document, unless it has no cores.
void add_node(Resources& resources, NodeResources node);
// The document of R, of version 1, without what the job has not asked for (NodeResources::more_cores, more_gpus).
[[nodiscard]] Json taken_document(const Resources& resources);
// The document of R, of version 1, without the nodes of these shell ranks.
[[nodiscard]] Json without_nodes(const Resources& resources, const value::Idset& shells);

}  // namespace nacre::job
