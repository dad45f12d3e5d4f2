// SPDX-License-Identifier: Apache-2.0
//
// Where the tasks of this shell are, and why: by the plan of cpu-affinity, what was set as each was started, and
// the cpus that its process may use now. Looked up only when somebody asks (`nacre ps --plan`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

struct TaskPlace {
  // Of cpus, memory, gpus, network cards. Both empty: no option asks for it, and there is nothing to tell.
  struct Part {
    std::string where;  // "0-3", "bind 0", "0,1", "mlx5_0:1"; "none"
    std::string why;
    bool operator==(const Part&) const = default;
  };

  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  Part cpus, memory, gpus, nics;
  std::string cpus_now;  // that its process may use; "": it has ended meanwhile
  std::string unset;     // why cpus and memory are planned, but not set: "dry-run"; "": they are set

  [[nodiscard]] Json json() const;  // an array, for the leader
  static Result<TaskPlace> parse(const Json& json);

  bool operator==(const TaskPlace&) const = default;
  friend bool operator<(const TaskPlace& a, const TaskPlace& b) { return a.rank < b.rank; }
};

// Of those that run, in the order of their ranks.
[[nodiscard]] std::vector<TaskPlace> task_places(plugin::Host& host);

}  // namespace nacre::plugins
