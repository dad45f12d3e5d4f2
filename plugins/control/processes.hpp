// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of this shell do and use at the moment: by one look at all processes, proc(5), and only when
// somebody asks.
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

struct TaskProcess {
  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  std::string state;                       // a letter of proc(5)
  double elapsed = 0;                      // seconds since its start
  double cpu = 0;                          // seconds of CPU time that it and what is below it have used
  std::uint64_t memory = 0;                // resident, of all of these: bytes
  std::string program;                     // that it runs now
  std::optional<usage::TaskGpu> gpu = {};  // if it was asked for, and something is known

  // [rank, pid, state, elapsed, cpu, memory, program], then, with `gpu`, its memory and use, null for none
  [[nodiscard]] Json json() const;
  static Result<TaskProcess> parse(const Json& json);
};

// Of those that run, in the order of their ranks.
[[nodiscard]] std::vector<TaskProcess> task_processes(plugin::Host& host,
                                                      const std::map<std::uint32_t, usage::TaskGpu>& gpus = {});

}  // namespace nacre::plugins
