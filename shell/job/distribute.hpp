// SPDX-License-Identifier: Apache-2.0
//
// How many tasks each node gets, and which cores and gpus. It is pure: only the jobspec and R decide, so every
// shell of a job gets the same result without asking others.
//
// A node offers as many slots as its cores (and gpus, if a slot has some) can hold. The slots, and then the tasks
// on the slots, are dealt one at a time, in rounds over the nodes by rank, so that both are as even as the nodes
// allow. distribute.cpp has the full rule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "job/jobspec.hpp"
#include "job/resources.hpp"

namespace nacre::job {

class Options;

// The shell option `per-resource`: {"type": "core" | "node", "count": N}: N tasks (default 1) on each core or node
// of R, whatever the jobspec's count.
struct PerResource {
  enum class Type { core, node };
  Type type = Type::node;
  std::uint32_t count = 1;
  static Result<PerResource> from_json(const Json& option);  // an error starts with `per-resource`
};

struct NodeShare {
  std::uint32_t slots = 0;
  std::uint32_t tasks = 0;
};

// The shell option `oversubscribe`: slots need no cores of their own, and where they have none a line reports it.
// `share`, which stands for what nobody has asked for, is the same, but the line is only for terminals.
enum class Oversubscribe { no, yes, share };
Result<Oversubscribe> oversubscribe_of(const JsonAt& option);  // errors start with its path

// The shell option `spares`: so many of the last nodes of R get no task. 0 without it.
Result<std::uint32_t> spares_of(const Options& options);

// One Share for each of resources.nodes; a node may have no slots, or slots but no tasks. An error if R cannot hold
// the request (too few nodes, or too few slots on them), with what each host has and the remedy; or if a
// per-resource option makes more than Jobspec::kMaxCount tasks.
Result<std::vector<NodeShare>> distribute(const Jobspec& spec, const Resources& resources,
                                          const std::optional<PerResource>& per_resource = std::nullopt,
                                          bool oversubscribe = false);

// "8 tasks share 2 cores on n0" where that is so, of the first node that has more slots than cores for them; else
// "".
[[nodiscard]] std::string sharing_text(const Jobspec& spec, const Resources& resources,
                                       const std::vector<NodeShare>& shares);

}  // namespace nacre::job
