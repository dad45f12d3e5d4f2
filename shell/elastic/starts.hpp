// SPDX-License-Identifier: Apache-2.0
//
// The numbers by which the shells report starts and ends of tasks to their leader, where a task may be started
// again: rank R of N tasks has R at its first start, R + N at the second, R + 2 N at the third, ... So each start
// has an end of its own, and what comes late of an earlier start is known as such.
#pragma once

#include <cstdint>
#include <map>

#include "value/idset.hpp"

namespace nacre::elastic {

class Starts {
 public:
  using Idset = value::Idset;
  using Attempt = std::uint32_t;  // from 1

  // Of a job of so many tasks, at least one.
  explicit Starts(std::uint64_t tasks) : tasks_(tasks) {}

  // The last start of a task that has a number.
  [[nodiscard]] Attempt most() const { return static_cast<Attempt>((Idset::kMaxId + std::uint64_t{1}) / tasks_); }
  // `attempt` is at most most(), `rank` less than the tasks.
  [[nodiscard]] Idset::Id number(Idset::Id rank, Attempt attempt) const {
    return static_cast<Idset::Id>(rank + (attempt - 1) * tasks_);
  }
  // The ranks by the start that these numbers name.
  [[nodiscard]] std::map<Attempt, Idset> ranks(const Idset& numbers) const;

 private:
  std::uint64_t tasks_;
};

// Which start of each rank counts.
class ExpectedStarts {
 public:
  using Idset = value::Idset;

  // From now on only this start of them counts; `attempt` is never less than before.
  void expect(const Idset& ranks, Starts::Attempt attempt);
  // Those of `ranks` of which this start counts.
  [[nodiscard]] Idset current(const Idset& ranks, Starts::Attempt attempt) const;

 private:
  std::map<Starts::Attempt, Idset> later_;  // by the start, the second or later; disjoint
};

}  // namespace nacre::elastic
