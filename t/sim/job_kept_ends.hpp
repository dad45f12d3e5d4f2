// SPDX-License-Identifier: Apache-2.0
//
// The ends of a shell's tasks that are kept back as the tasks are to start again, as core/shell_restart.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "exits/record.hpp"
#include "job_task.hpp"

namespace nacre::sim {

class JobTasks;

struct JobKeptEnd {
  enum class State : std::uint8_t { asked, waiting, moving, due, starting, together };

  JobTask* task = nullptr;
  exits::Record record;
  bool whole = false;
  bool ordered = false;
  State state = State::asked;
  std::uint32_t attempt = 0;
};

class JobKeptEnds {
 public:
  using State = JobKeptEnd::State;

  explicit JobKeptEnds(JobTasks& tasks) : tasks_(tasks) {}

  [[nodiscard]] bool is_empty() const { return kept_.empty(); }
  [[nodiscard]] std::optional<Id> first() const;
  [[nodiscard]] bool contains(Id rank) const { return kept_.contains(rank); }
  [[nodiscard]] JobKeptEnd* find(Id rank);
  [[nodiscard]] bool is_due() const;
  [[nodiscard]] Idset asked_alone() const;  // not with all tasks of the job, and without an answer

  JobKeptEnd& keep(const JobKeptEnd& end);
  std::vector<JobKeptEnd*> start_due();
  void start_all();  // of those that are left
  void erase(Id rank) { kept_.erase(rank); }
  void erase_if(const std::function<bool(Id rank)>& which);
  void erase_starting();
  void clear() { kept_.clear(); }

  // They do not start again, and what they ended with counts.
  void drop(Id rank);
  void drop_all();
  void refuse(Id rank);
  // What was dropped before its answer: the answer grants a start, so the end counts as that of this start.
  void record_dropped(Id rank);
  void record_all_dropped();

 private:
  JobTasks& tasks_;
  std::map<Id, JobKeptEnd> kept_;
  std::map<Id, exits::Record> dropped_;  // before its answer
};

}  // namespace nacre::sim
