// SPDX-License-Identifier: Apache-2.0
#include "job_records.hpp"

namespace nacre::sim {

JobRecords::JobRecords(const JobPlan& plan) : plan_(plan), clients_(plan.seed, plan.tasks.size(), plan.policy) {}

Idset JobRecords::add(Time now, const Idset& ranks, const exits::Record& record) {
  Idset fresh = all_.add(ranks, record);
  if (!fresh.empty()) clients_.record(now, fresh, record);
  return fresh;
}

void JobRecords::lose(Time now, const Idset& ranks) {
  clients_.lost(now, all_.add(ranks, exits::Record::lost()), exits::Record::lost());
}

void JobRecords::add_unstarted() { all_.add(plan_.all_ranks(), exits::Record::victim({})); }

void JobRecords::end(Time now, int code) { clients_.end(now, code); }

}  // namespace nacre::sim
