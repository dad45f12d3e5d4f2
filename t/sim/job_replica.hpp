// SPDX-License-Identifier: Apache-2.0
//
// What each shell makes of the job's log, all alike: where tasks are, which start of each counts, which shells
// there are, how many restarts are used. The real elastic::Recovery and elastic::Roster decide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elastic/recovery.hpp"
#include "elastic/roster.hpp"
#include "exits/job_end.hpp"
#include "job/job.hpp"
#include "job_plan.hpp"

namespace nacre::sim {

class JobReplica {
 public:
  // `end`: as this shell knows it from the log.
  JobReplica(const JobPlan& plan, Id id, const exits::JobEnd& end);

  [[nodiscard]] const Changes& changes() const { return changes_; }
  [[nodiscard]] const job::Job& job() const { return job_; }
  [[nodiscard]] elastic::Recovery& recovery() { return recovery_; }
  [[nodiscard]] elastic::Roster& roster() { return roster_; }
  [[nodiscard]] const elastic::Roster& roster() const { return roster_; }

  // ---- its tasks
  // The number of this start of the task, as what is sent to the leader has it.
  [[nodiscard]] Idset number_of(Id rank, std::uint32_t attempt) const;
  [[nodiscard]] bool is_here(Id rank) const { return job_.taskmap.node_of(rank) == job_.shell_rank; }
  [[nodiscard]] bool asks_for_spares() const { return changes_.to_spare && job_.shells() > 1; }
  // Those of a lost shell. Returns what has an effect.
  std::vector<job::Move> move(const std::vector<job::Move>& moves);
  void note_tasks_over() { tasks_over_ = true; }
  [[nodiscard]] bool are_tasks_over() const { return tasks_over_; }

  // ---- its shells
  Idset grow(const elastic::Growth& growth);        // returns those that have come
  void note_before(const elastic::Growth& growth);  // of one that joins: they have joined before it, or with it
  [[nodiscard]] const elastic::Growth& growth() const { return growth_; }

  [[nodiscard]] Json state() const;    // for those that join
  void take_state(const Json& state);  // what the job has come to by the entry that brings it
  [[nodiscard]] std::string text() const;

 private:
  const Changes& changes_;
  job::Job job_;
  elastic::Restarts restarts_;
  elastic::Roster roster_;
  elastic::Recovery recovery_;
  elastic::Growth growth_;  // so far
  bool tasks_over_ = false;
};

}  // namespace nacre::sim
