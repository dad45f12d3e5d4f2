// SPDX-License-Identifier: Apache-2.0
//
// With where=spare: tasks of a shell whose wait is over ask for a spare, as core/shell_restart.cpp.
#pragma once

#include <vector>

#include "job_kept_ends.hpp"
#include "job_replica.hpp"

namespace nacre::sim {

class JobShell;
class JobWholeRestart;

class JobSpareStarts {
 public:
  JobSpareStarts(JobShell& shell, const JobReplica& replica, JobKeptEnds& kept, JobWholeRestart& whole)
      : shell_(shell), replica_(replica), kept_(kept), whole_(whole) {}

  void wait_is_over(Id rank);
  void placed(const elastic::SpareRequest& asked, const elastic::SparePlaces& places);  // of this shell
  void signalled(Id rank) { signalled_.insert(rank); }  // which goes on to a spare with the task

 private:
  void ask();
  void placed(Id rank, const elastic::SparePlaces& places);
  void placed_together(const elastic::SparePlaces& places);

  JobShell& shell_;
  const JobReplica& replica_;
  JobKeptEnds& kept_;
  JobWholeRestart& whole_;
  std::vector<Id> unplaced_;
  Idset signalled_;  // while they asked
};

}  // namespace nacre::sim
