// SPDX-License-Identifier: Apache-2.0
//
// What has to hold of a job whose shells come and go, and whose tasks start again. Checked against what was done to
// it, the leader's log, and the starts and ends of tasks, not against what the shells make of them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "job_shell.hpp"

namespace nacre::sim {

class ElasticCheck {
 public:
  using Shells = std::vector<std::unique_ptr<JobShell>>;

  ElasticCheck(World& world, const JobPlan& plan, const Shells& shells, const Idset& harmed)
      : world_(world), plan_(plan), shells_(shells), harmed_(harmed) {
    if (plan.members > 0) members_ = Idset::range(0, plan.members - 1);
  }

  // What the job does, each checked at once.
  void logged(const Entry& entry);  // by the leader
  void started(const Witness::Start& start);
  void stopped(Id shell, Id rank) { running_[rank].erase(shell); }
  void moved(Id rank, Id to) const;
  void agreed(Id shell, Seq entry, const std::string& view);
  void grows(Id shell);
  void ordered(std::size_t order);
  void answered(std::size_t order);

  [[nodiscard]] const Idset& left() const { return left_; }
  [[nodiscard]] bool has_had(Id shell, Id rank) const { return had_.contains({shell, rank}); }
  // When nothing goes on any more; `in_order`: its leader has ended it.
  void at_the_end(bool in_order) const;
  void count(JobOutcome& out) const;

 private:
  void check_live_tries(const Witness::Start& start) const;

  World& world_;
  const JobPlan& plan_;
  const Shells& shells_;
  const Idset& harmed_;
  Idset members_, dead_, left_;                    // by the leader's log
  Idset ids_;                                      // of shells that have joined later, or were to
  std::map<Id, std::set<Id>> running_;             // the shells on which a rank runs
  std::set<std::pair<Id, std::uint32_t>> starts_;  // by rank and try
  std::set<std::pair<Id, Id>> had_;                // shell and rank
  std::set<std::string> restarts_;                 // that have used one of the job's
  std::map<Id, std::set<std::string>> per_task_;   // likewise
  std::map<std::size_t, bool> orders_;             // that were given: whether they have an answer
  std::map<std::size_t, Time> given_;
  std::map<Seq, std::string> views_;
};

}  // namespace nacre::sim
