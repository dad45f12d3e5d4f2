// SPDX-License-Identifier: Apache-2.0
//
// What a seed draws: a job of real shells, what its tasks do, what goes wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shells/kernel.hpp"

namespace nacre::shells {

struct Fault {
  enum class Kind : std::uint8_t {
    kill,       // a shell
    stop,       // a shell stands still for some time
    cut,        // a link of a shell
    terminate,  // SIGTERM to the leader
    hang_up,    // the launcher goes
    end_task    // SIGKILL to a task
  };
  Kind kind = Kind::kill;
  std::uint64_t step = 0;   // of the kernel
  std::uint32_t shell = 0;  // by its rank; of end_task: the task's
  Nanoseconds length = 0;   // of a stop
};

struct Plan {
  std::uint64_t seed = 1;
  std::uint32_t shells = 1, tasks_per_shell = 1, arity = 2;
  std::vector<std::string> options;
  std::vector<Fault> faults;
  Nanoseconds most_delay = 0, most_pause = 0;
  bool slow_reader = false;  // of the job's output

  [[nodiscard]] TaskScript script(std::uint32_t rank, std::uint32_t start) const;
  [[nodiscard]] bool has_option(const std::string& text) const;  // "name=value"
  [[nodiscard]] std::uint32_t most_restarts() const;             // as the option restart has it
  [[nodiscard]] std::uint32_t ranks() const { return shells * tasks_per_shell; }
  [[nodiscard]] std::string text() const;  // a line
};

struct PlanLimits {
  std::uint32_t shells = 4;
  std::uint32_t faults = 0;
};

// How each line begins that the task writes.
std::string task_mark(std::uint32_t rank, std::uint32_t start);
std::string job_folder();  // where all files of a job are

Plan make_plan(std::uint64_t seed, const PlanLimits& limits);

}  // namespace nacre::shells
