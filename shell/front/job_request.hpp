// SPDX-License-Identifier: Apache-2.0
//
// Makes a jobspec (Flux RFC 25) of what the options of `nacre run` ask for. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "front/environment_rules.hpp"

namespace nacre::front {

// How many tasks and nodes the user asked for; none: the option was not given.
struct SizeRequest {
  std::optional<std::uint32_t> tasks;
  std::optional<std::uint32_t> nodes;  // with tasks
  std::optional<std::uint32_t> tasks_per_node;
  std::uint32_t spares = 0;
};

struct JobSize {
  std::uint32_t tasks = 1;
  std::uint32_t nodes = 1;  // with tasks
  // Tasks on each node; none: the tasks go where cores are, as evenly as possible.
  std::optional<std::uint32_t> tasks_per_node;
  std::uint32_t spares = 0;  // nodes without tasks, behind the others
  [[nodiscard]] std::uint32_t shells() const { return nodes + spares; }
  bool operator==(const JobSize&) const = default;
};

// The value of -N: "4", or "4+1" with a spare.
struct NodeCounts {
  std::uint32_t nodes = 1;
  std::optional<std::uint32_t> spares;  // none: only a number of nodes is given

  static Result<NodeCounts> parse(std::string_view text);
};

// `places`: how many nodes there are; none: as many as the request asks for. Without a number of tasks there is 1
// task, or one on each node if the request has a number of nodes. Without a number of nodes all places are used,
// but those for spares, and no more than there are tasks. Errors name the options.
Result<JobSize> size_of(const SizeRequest& request, std::optional<std::uint32_t> places);

// What stands for a request without any number, of tasks, of nodes, of tasks on each: so many `tasks`, where these
// were asked for elsewhere, else one on each of `places`, but those for spares.
[[nodiscard]] SizeRequest size_of_places(SizeRequest request, std::uint32_t places,
                                         std::optional<std::uint32_t> tasks);

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

// An error: an argument is not UTF-8, or has a NUL, which no argument of a program can have.
Result<Json> jobspec_of(const JobRequest& request);

// The value of -t: a number of minutes, or a Flux Standard Duration (RFC 23): "90s", "1.5h".
Result<double> time_limit_of(const std::string& text);

}  // namespace nacre::front
