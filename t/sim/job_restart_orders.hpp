// SPDX-License-Identifier: Apache-2.0
//
// Orders of nacre restart, each open until its tasks have started again, or cannot, as
// plugins/control.
#pragma once

#include <cstddef>
#include <vector>

#include "world.hpp"

namespace nacre::sim {

class JobElastic;
class JobLeader;
class JobShell;

class JobRestartOrders {
 public:
  JobRestartOrders(JobShell& shell, JobElastic& elastic, const JobLeader& leader)
      : shell_(shell), elastic_(elastic), leader_(leader) {}

  void order(std::size_t number, const Idset& ranks);
  void done_with(const Idset& ranks);  // they start again, are refused, or have ended for good
  void end_all();                      // the job is over
  [[nodiscard]] bool are_open() const { return !restarting_.empty(); }

 private:
  struct Restart {
    std::size_t number = 0;
    Idset waiting;
  };

  void answer_complete();

  JobShell& shell_;
  JobElastic& elastic_;
  const JobLeader& leader_;
  std::vector<Restart> restarting_;
};

}  // namespace nacre::sim
