// SPDX-License-Identifier: Apache-2.0
//
// A small model of what one shell does beside its overlay node: core/shell.cpp without plugins and processes. It
// goes through the phases, and passes on to its parts what its node reports. How the job ends is up to the real
// exits::JobEnd, exits::Outcomes and exits::Policy; what the shells send is in the real texts. JobElastic has what
// goes on as the job changes.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "elastic/roster.hpp"
#include "job_departure.hpp"
#include "job_ending.hpp"
#include "job_group.hpp"
#include "job_process.hpp"
#include "job_records.hpp"
#include "job_tasks.hpp"

namespace nacre::sim {

class JobElastic;

class JobShell {
 public:
  // `before`: of one that joins later, the shells that have joined until its grow began.
  JobShell(World& world, const JobPlan& plan, Id id, Witness& witness, const elastic::Growth* before = nullptr);
  ~JobShell();

  void born();  // its process has been started, with its node
  // From the node: what it wants is done later.
  void effect(const Effect& effect);
  void starter_gone();
  void child_ended(Id child);  // one that this shell has started

  bool call(Place place);  // handlers; false: an error is returned
  void end_process(int code);

  [[nodiscard]] bool has_given_up() const { return giving_up_; }  // it has not become a Shell
  [[nodiscard]] JobProcess& process() { return process_; }
  [[nodiscard]] const JobProcess& process() const { return process_; }
  [[nodiscard]] JobGroup& group() { return group_; }
  [[nodiscard]] const JobGroup& group() const { return group_; }
  [[nodiscard]] JobTasks& tasks() { return tasks_; }
  [[nodiscard]] const JobTasks& tasks() const { return tasks_; }
  [[nodiscard]] JobEnding& ending() { return ending_; }
  [[nodiscard]] const JobEnding& ending() const { return ending_; }
  [[nodiscard]] JobRecords& records() { return records_; }  // the leader's
  [[nodiscard]] const JobRecords& records() const { return records_; }
  [[nodiscard]] const JobDeparture& departure() const { return departure_; }
  [[nodiscard]] JobElastic* elastic() const { return elastic_.get(); }

 private:
  // The phases. step(): whether it came further.
  bool step();
  bool step_to_the_end();
  bool join();
  bool wait_for(const std::string& barrier, Phase next);
  bool handle(Place place, Phase next), joins(Place place), all_started();
  void enter_phase(Phase phase);
  bool go_to(Phase phase);
  bool fail(const Failure& how);
  void give_up(const exits::Cause& why, bool is_logged);
  void leave_job();
  // What its node reports.
  void deliver(const Entry& entry);
  void reported(const Reported& what);
  void cut_off(const std::string& why);

  JobProcess process_;
  JobGroup group_;
  JobTasks tasks_;
  JobEnding ending_;
  JobRecords records_;
  JobDeparture departure_;
  bool executed_ = false;  // the phase finish has come to its end
  bool starter_gone_ = false, giving_up_ = false;
  std::set<std::pair<Place, How>> failed_;  // a handler fails once
  std::unique_ptr<JobElastic> elastic_;     // none: the job does not change
};

}  // namespace nacre::sim
