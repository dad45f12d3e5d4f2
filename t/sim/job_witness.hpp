// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "elastic/roster.hpp"
#include "exits/job_end.hpp"
#include "job_plan.hpp"

namespace nacre::sim {

// What really happens in a job, for the checks: the shells tell it, and never ask.
class Witness {
 public:
  virtual ~Witness() = default;
  // What can be named as the cause of the job's end has happened there. `must`: nothing may keep the job from
  // ending by it, unless the shell is lost.
  virtual void failed(Id shell, const exits::Cause& cause, bool must) = 0;
  virtual void decided(Id shell, const exits::Cause& cause) = 0;  // which failure was the first
  virtual void named(Id shell, const exits::Cause& cause) = 0;    // as the cause, in the leader's log
  virtual void recorded(Id rank, std::uint32_t attempt, const std::string& record) = 0;
  virtual void entered(Id shell, Phase phase) = 0;
  virtual void ended(Id shell) = 0;  // its process, by itself or not

  // ---- of a job that changes
  // Why a task starts: what is `automatic` uses restarts of the job, one for all of the same `restart`.
  enum class Why : std::uint8_t { first, automatic, ordered, moved };
  struct Start {
    Id shell = 0;
    Id rank = 0;
    std::uint32_t attempt = 1;
    Why why = Why::first;
    std::string restart = {};
  };
  virtual void started(const Start& start) = 0;
  virtual void stopped(Id shell, Id rank) = 0;
  virtual void answered(std::size_t order, bool is_error) = 0;
  virtual void moved(Id rank, Id to) = 0;                                 // in the leader's view
  virtual void agreed(Id shell, Seq entry, const std::string& view) = 0;  // what it makes of the log up to there
  virtual void grows(Id shell, const elastic::Growth& before) = 0;        // the leader has it started
  virtual void put_ready(Id shell) = 0;  // it can be taken out, which the leader gets to know beside the log
  virtual void dismisses(Id shell) = 0;  // ... and does not wait for it any more
};

}  // namespace nacre::sim
