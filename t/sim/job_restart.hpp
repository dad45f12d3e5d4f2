// SPDX-License-Identifier: Apache-2.0
//
// How the tasks of a shell start again, by themselves or by order, as core/shell_restart.cpp; and when it has none
// left to start.
#pragma once

#include <string>
#include <vector>

#include "job_arrivals.hpp"
#include "job_kept_ends.hpp"
#include "job_replica.hpp"
#include "job_spare_starts.hpp"
#include "job_starts.hpp"
#include "job_whole_restart.hpp"

namespace nacre::sim {

class JobRemoval;
class JobShell;

class JobRestart {
 public:
  JobRestart(JobShell& shell, const JobReplica& replica, const JobRemoval& removal);

  // ---- from its tasks
  void started(JobTask& task);
  void are_started();         // those of its start
  bool keeps(JobTask& task);  // that has ended: true: it may start again
  void signalled();
  void drop_all();    // nothing starts again
  bool may_finish();  // and starts what is due

  // ---- in the order of the log
  void granted(Id rank, const elastic::RestartDecision& decision);
  void begin_together(const elastic::RestartDecision& decision);
  void order(const Idset& ranks);  // by nacre restart: they are ended
  void refuse(const Idset& ranks, const std::string& why);

  [[nodiscard]] std::string open() const;  // what is open; "": nothing
  [[nodiscard]] JobKeptEnds& kept() { return kept_; }
  [[nodiscard]] JobArrivals& arrivals() { return arrivals_; }
  [[nodiscard]] JobWholeRestart& whole() { return whole_; }
  [[nodiscard]] JobSpareStarts& spares() { return spares_; }

 private:
  [[nodiscard]] bool ending() const;
  [[nodiscard]] bool wants(const JobTask& task, bool is_ordered) const;
  [[nodiscard]] bool asks_for_node() const;
  void send();
  void start_due();
  void start_alone();
  void start_together();
  void start_soon();
  void start_tasks();

  JobShell& shell_;
  const JobReplica& replica_;
  const JobRemoval& removal_;
  JobKeptEnds kept_;
  JobStarts starts_;
  JobArrivals arrivals_;
  JobWholeRestart whole_;
  JobSpareStarts spares_;
  std::vector<Id> unsent_;
  Idset ordered_;  // that are being ended by nacre restart
  bool finished_ = false, is_starting_ = true;
};

}  // namespace nacre::sim
