// SPDX-License-Identifier: Apache-2.0
//
// The rows of `nacre ps --plan`: where each task is and why, a row for each kind of thing that was placed; tasks
// that are placed alike, even on different hosts, have their rows together.
#pragma once

#include "base/json.hpp"

namespace nacre::front {

// The rows of `nacre ps`: one for each process, or, if there are many, one for all that are alike.

// A task as in the leader's answer to `ps`, or a process that tasks have spawned.
struct PsTask {
  std::uint64_t spawn = 0;  // 0: it is a task
  std::uint32_t rank = 0;   // in the job, or in that spawn
  std::string host;
  std::uint32_t shell = 0;
  std::int64_t pid = 0;
  std::string state;
  std::uint32_t attempt = 1;  // of a task
  double time = 0;            // seconds
  double cpu = 0;             // of one CPU: 1 is 100 %
  double rss = 0;             // bytes
  std::string command;
  std::optional<double> gpu_memory;      // bytes
  std::optional<double> gpu_device_use;  // of the devices that it is on: 1 is 100 %

  [[nodiscard]] Json json() const;
  static Result<PsTask> parse(const Json& json);
};

// A node without tasks, in the answer to `ps`.
struct PsSpare {
  std::string host;
  std::uint32_t shell = 0;

  static Result<PsSpare> parse(const Json& json);
};

inline constexpr std::size_t kPsFoldAbove = 64;  // processes

// The cells RANK HOST PID ST TRY TIME CPU% RSS CMD of each row, tasks first. RANK of a spawned process is
// SPAWN.RANK. Folded: processes with the same spawn, host, state, attempt and command are one row, with the longest
// time, the mean of CPU%, and the sum of RSS.
[[nodiscard]] std::vector<std::vector<std::string>> ps_rows(const std::vector<PsTask>& tasks, bool folded);
// The same cells.
[[nodiscard]] std::vector<std::string> ps_row(const PsSpare& spare);

// A task as in the leader's answer to `plan`.
struct PlaceOfTask {
  static constexpr std::array<std::string_view, 4> kKinds = {"cpus", "memory", "gpus", "nics"};
  struct Part {
    std::string where, why;  // both empty: it is not shown
    auto operator<=>(const Part&) const = default;
  };

  std::uint32_t rank = 0;
  std::string host;
  std::array<Part, kKinds.size()> parts;
  std::string cpus_now;  // that its process may use; "": it is not known
  std::string unset;     // why cpus and memory are not set; "": they are

  static Result<PlaceOfTask> parse(const Json& json);
};

// The cells RANK HOST WHAT WHERE WHY of each row; RANK and HOST only in the first one of a task, or of several.
[[nodiscard]] std::vector<std::vector<std::string>> place_rows(const std::vector<PlaceOfTask>& tasks, bool folded);

}  // namespace nacre::front
