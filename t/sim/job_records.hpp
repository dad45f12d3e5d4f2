// SPDX-License-Identifier: Apache-2.0
//
// How the tasks of a job have ended, as its leader knows it, and the clients that it notifies of that.
#pragma once

#include "exits/outcomes.hpp"
#include "job_clients.hpp"
#include "job_plan.hpp"

namespace nacre::sim {

class JobRecords {
 public:
  explicit JobRecords(const JobPlan& plan);

  // Returns those that had none.
  Idset add(Time now, const Idset& ranks, const exits::Record& record);
  void lose(Time now, const Idset& ranks);
  void add_unstarted();  // what has no record was never started
  void end(Time now, int code);

  [[nodiscard]] const exits::Outcomes& all() const { return all_; }
  [[nodiscard]] bool are_complete() const { return all_.ranks().size() >= plan_.tasks.size(); }
  void check_clients() { clients_.check(all_, plan_.all_ranks()); }

 private:
  const JobPlan& plan_;
  exits::Outcomes all_;
  JobClients clients_;
};

}  // namespace nacre::sim
