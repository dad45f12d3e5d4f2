// SPDX-License-Identifier: Apache-2.0
//
// A shell that joins a job that runs, until it is ready, as join/join.cpp. Of a shell that the job begins with
// it does nothing.
#pragma once

#include <optional>

#include "elastic/roster.hpp"
#include "exits/job_end.hpp"
#include "job_replica.hpp"

namespace nacre::sim {

class JobShell;

class JobNewcomer {
 public:
  // `before`: the shells that have joined until its grow began; null: the shell does not join later.
  JobNewcomer(JobShell& shell, JobReplica& replica, const elastic::Growth* before);

  [[nodiscard]] bool is_joining() const { return is_joining_; }
  [[nodiscard]] bool has_state() const { return state_.has_value(); }
  [[nodiscard]] bool has_ended() const { return ended_.has_value(); }  // the job, before this shell could join

  void joined(Seq view);           // the log has it
  bool early(const Event& event);  // true: from here on what comes counts
  void take_state();
  [[nodiscard]] bool fails(const exits::Cause& cause);  // true: it was about to join
  void ready();

 private:
  JobShell& shell_;
  JobReplica& replica_;
  bool is_joining_ = false, has_failed_ = false;
  bool is_mine_ = false;  // the grow that has brought it is announced
  std::optional<Json> state_, ended_;
};

}  // namespace nacre::sim
