// SPDX-License-Identifier: Apache-2.0
//
// What `nacre run` is asked for, as a jobspec (Flux RFC 25). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "front/environment_rules.hpp"

namespace nacre::front {

// How many tasks and nodes were asked for; none: nothing was said.
struct SizeRequest {
  std::optional<std::uint32_t> tasks;
  std::optional<std::uint32_t> nodes;
  std::optional<std::uint32_t> tasks_per_node;
};

struct JobSize {
  std::uint32_t tasks = 1;
  std::uint32_t nodes = 1;  // shells
  // Of each of so many nodes; none: they go where cores are, as evenly as it goes.
  std::optional<std::uint32_t> tasks_per_node;
  bool operator==(const JobSize&) const = default;
};

// `places`: how many nodes there are; none: as many as are asked for. Without a number of tasks it is 1, or one a node where nodes
// were asked for. Without a number of nodes it is that of all places, but not more than tasks. Errors name the options.
Result<JobSize> size_of(const SizeRequest& request, std::optional<std::uint32_t> places);

struct JobRequest {
  std::vector<std::string> command;  // not empty
  JobSize size;
  std::uint32_t cores_per_task = 1;
  std::uint32_t gpus_per_task = 0;
  double duration = 0;  // seconds; 0: no limit
  std::string name;     // empty: none
  std::string cwd;
  Variables environment;
  Json options = Json::object();  // of the shell
};

// An error: an argument that is no UTF-8, or that no program can be given.
Result<Json> jobspec_of(const JobRequest& request);

// -t: a number of minutes, or text in Flux Standard Duration (RFC 23): "90s", "1.5h".
Result<double> time_limit_of(const std::string& text);

}  // namespace nacre::front
