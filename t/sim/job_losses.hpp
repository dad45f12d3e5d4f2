// SPDX-License-Identifier: Apache-2.0
//
// Lost shells, and where the leader has their tasks go, as its half of core/shell_grow.cpp. The real
// elastic::Replacements chooses.
#pragma once

#include <vector>

#include "elastic/recovery.hpp"
#include "world.hpp"

namespace nacre::sim {

class JobElastic;
class JobLeader;
class JobShell;

class JobLosses {
 public:
  JobLosses(JobShell& shell, JobElastic& elastic, JobLeader& leader)
      : shell_(shell), elastic_(elastic), leader_(leader) {}

  void lost(Id shell);
  void decide(Id shell);
  void decide_all();  // from now on; first those of before, when no task could start again yet
  void replace(Id from);
  void replaced(const std::vector<job::Move>& moves);  // the log has it
  void give_up(Id shell);
  void close(Id shell);  // it is decided what becomes of its tasks

 private:
  JobShell& shell_;
  JobElastic& elastic_;
  JobLeader& leader_;
  elastic::Replacements replacements_;
  bool decides_ = false;
  Idset undecided_, open_;  // shells
};

}  // namespace nacre::sim
