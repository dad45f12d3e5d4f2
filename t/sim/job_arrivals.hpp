// SPDX-License-Identifier: Apache-2.0
//
// Tasks that come to a shell from others, as these are lost, or as the tasks go to a spare.
#pragma once

#include <deque>
#include <vector>

#include "job/job.hpp"
#include "job_replica.hpp"

namespace nacre::sim {

class JobShell;
class JobStarts;

class JobArrivals {
 public:
  JobArrivals(JobShell& shell, const JobReplica& replica, JobStarts& starts)
      : shell_(shell), replica_(replica), starts_(starts) {}

  void take(const std::vector<job::Move>& moves);  // of them those that come here
  [[nodiscard]] bool are_due() const { return !due_.empty(); }
  void take_over();  // those of the first move that is due become tasks of this shell
  void started(Id rank);
  void signalled();              // the tasks of the shell
  void signalled_late(Id rank);  // what was sent on to where the task is

 private:
  JobShell& shell_;
  const JobReplica& replica_;
  JobStarts& starts_;
  std::deque<job::Move> due_;
  Idset coming_, signalled_;  // that come here; of these, those that have had a signal
};

}  // namespace nacre::sim
