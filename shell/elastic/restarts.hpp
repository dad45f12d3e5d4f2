// SPDX-License-Identifier: Apache-2.0
//
// How many restarts of tasks a job has left, and when each is due. All shells have one, and ask it for the same
// restarts in the same order, that of the log: so it answers all of them alike, and no two use the same one.
#pragma once

#include <cstdint>
#include <limits>
#include <map>

#include "base/json.hpp"
#include "value/idset.hpp"

namespace nacre::elastic {

class Restarts {
 public:
  using Rank = value::Idset::Id;
  static constexpr double kSteady = 600;  // seconds: a task that has run for so long begins anew

  struct Limits {
    std::uint64_t job = 3;
    std::uint64_t per_task = std::numeric_limits<std::uint64_t>::max();
    double first = 1;     // seconds until the first restart of a task; ...
    double longest = 60;  // ... twice as long each time, up to this
  };
  struct Granted {
    std::uint64_t number = 0;  // of this restart in the job, from 1
    double delay = 0;          // seconds
  };

  explicit Restarts(Limits limits) : limits_(limits) {}

  // Of a task that has run for so many seconds. An error: there is none left; the message says of what.
  Result<Granted> take(Rank rank, double ran);
  // Of all tasks of the job together.
  Result<Granted> take_job(double ran) { return take_together(jobs_in_a_row_, ran); }
  // Of all tasks of a node.
  Result<Granted> take_node(std::uint32_t node, double ran) { return take_together(nodes_in_a_row_[node], ran); }

  // What has been granted so far, for a shell that joins the job, and begins with it.
  [[nodiscard]] Json json() const;
  Result<void> take(const JsonAt& at);

  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

 private:
  struct Task {
    std::uint64_t used = 0;
    std::uint32_t in_a_row = 0;  // without a long run between them
  };

  Result<Granted> take_together(std::uint32_t& in_a_row, double ran);
  [[nodiscard]] double next_delay(std::uint32_t& in_a_row, double ran) const;

  Limits limits_;
  std::uint64_t used_ = 0;
  std::map<Rank, Task> tasks_;
  std::uint32_t jobs_in_a_row_ = 0;
  std::map<std::uint32_t, std::uint32_t> nodes_in_a_row_;
};

}  // namespace nacre::elastic
