// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of this shell, and the processes that tasks have spawned on it, do and use at the moment: by one
// look at all processes, proc(5), and only when somebody asks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "plugin/host.hpp"
#include "usage/gpu.hpp"

namespace nacre::plugins {

// Of a process that is no task: whose it is.
struct SpawnOrigin {
  std::uint64_t spawn = 0;  // counted from 1, in this start of all tasks
  std::uint32_t task = 0;   // the rank as whose output its own comes out
  std::uint32_t shell = 0;  // that it is on
};

struct TaskProcess {
  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  std::string state;                       // a letter of proc(5)
  double elapsed = 0;                      // seconds since its start
  double cpu = 0;                          // seconds of CPU time that it and what is below it have used
  std::uint64_t memory = 0;                // resident, of all of these: bytes
  std::string program;                     // that it runs now
  std::optional<usage::TaskGpu> gpu = {};  // if it was asked for, and something is known
  std::optional<SpawnOrigin> origin = {};  // it was spawned; `rank` is that in its spawn

  // [rank, pid, state, elapsed, cpu, memory, program], then, with `gpu`, its memory and use, null for none, or,
  // with `origin`, [spawn, task, shell]
  [[nodiscard]] Json json() const;
  static Result<TaskProcess> parse(const Json& json);
};

// Tasks come first, then what was spawned, by spawn; each in the order of ranks.
bool operator<(const TaskProcess& a, const TaskProcess& b);

// Of those that run, in that order.
[[nodiscard]] std::vector<TaskProcess> task_processes(plugin::Host& host,
                                                      const std::map<std::uint32_t, usage::TaskGpu>& gpus = {});

}  // namespace nacre::plugins
