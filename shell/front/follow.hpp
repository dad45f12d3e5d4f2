// SPDX-License-Identifier: Apache-2.0
//
// How `nacre run` goes on when the shell that leads its job is lost, and another one leads
// (on-leader-lost=take-over): it looks for the new leader, joins it, and is the job's launcher as before.
#pragma once

#include "event/loop.hpp"
#include "launch/record.hpp"
#include "launch/stream.hpp"

namespace nacre::front {

// The standard input of the process that has started the job.
struct FollowedInput {
  launch::InputTail* tail = nullptr;  // what was sent of it; null: there is none
  int input = -1;                     // the descriptor
};

struct FollowPlan {
  value::JobId job;
  std::string front;               // with what messages begin
  std::vector<std::string> hosts;  // of the shells, in the order of their ranks; empty: all are on this host
  std::vector<std::string> agent;  // starts a program on one of them; empty: all are on this host
  std::string program;             // nacre, on these hosts
  bool label = false;              // the rank before each line of output
  bool quiet = false;
  value::Idset* without = nullptr;  // what it has agreed to: the job goes on without these shells, at every time
  int lost_code = 1;                // of the job, if no shell is left that could tell it
  FollowedInput input = {};         // what is sent of it is added to the tail
  // Of a job whose shells srun has started: who leads it now, once that shell has said so; who was joined is taken
  // out. Null: it is looked for on the hosts.
  std::optional<launch::NextLeader>* told = nullptr;
  std::function<bool()> is_over = {};  // likewise: no shell is left
  // Signals that came while a leader was looked for, once one is joined: it passes them on.
  std::function<std::vector<int>()> take_signals = {};
  // More of one of the leader's reports (LaunchReport::channel), or for standard error ("terminal").
  std::function<void(std::string_view report, std::string_view text)> on_report = {};
};

// Whether the lists of jobs that this process can read name another leader of the job, running or ended, than the
// process `leader` of this host.
[[nodiscard]] bool has_another_leader(const value::JobId& job, pid_t leader);
// Whether a shell on another host than the first one leads the job: asks all hosts, each for some seconds at most.
[[nodiscard]] bool has_leader_elsewhere(const FollowPlan& plan);

inline constexpr event::Seconds kMostToFind{45};  // less than the leader waits for its follower

// Returns the job's exit code. `loop`: the caller's, which runs while the job is shown. `waits` is called while
// another leader is looked for; false: stop looking. An error: none was found, or it has refused.
Result<int> follow(event::Loop& loop, const FollowPlan& plan, const std::function<bool(event::Seconds)>& waits);

}  // namespace nacre::front
