// SPDX-License-Identifier: Apache-2.0
//
// How all tasks of a job, or of a shell, start again together, as core/shell_restart.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job_kept_ends.hpp"
#include "job_replica.hpp"

namespace nacre::sim {

class JobShell;
class JobStarts;

class JobWholeRestart {
 public:
  JobWholeRestart(JobShell& shell, const JobReplica& replica, JobKeptEnds& kept, JobStarts& starts)
      : shell_(shell), replica_(replica), kept_(kept), starts_(starts) {}

  [[nodiscard]] bool is_under_way() const { return now_.has_value(); }
  [[nodiscard]] bool is_still(std::uint64_t restarts) const { return now_ && now_->restarts == restarts; }
  [[nodiscard]] bool is_of_node() const { return now_ && now_->is_node; }
  [[nodiscard]] bool moves() const { return now_ && now_->moves; }  // they ask for a spare
  [[nodiscard]] bool is_due() const { return now_ && now_->is_due; }
  [[nodiscard]] std::optional<double> delay() const;  // all of the job wait to start again; seconds

  void begin(const elastic::RestartDecision& decision);
  void end_tasks();
  void keep(JobTask& task);  // that has ended
  void passed(const std::string& barrier);
  void stay();                  // there is no spare
  std::uint64_t renew_tasks();  // returns which restart it is
  void drop_node();             // a signal for tasks of this shell cancels it
  void reset() { now_.reset(); }

 private:
  struct Restart {
    std::uint64_t restarts = 0;
    Time delay{};
    bool is_node = false;
    std::uint64_t number = 0;  // of the job's restarts; 0: it was ordered
    bool ordered = false;
    bool ends = false;
    bool waits = false;
    bool is_due = false;
    bool moves = false;
  };

  void wait_for_others();
  void wait_for_delay();
  void wait_is_over();

  JobShell& shell_;
  const JobReplica& replica_;
  JobKeptEnds& kept_;
  JobStarts& starts_;
  std::optional<Restart> now_;
};

}  // namespace nacre::sim
