// SPDX-License-Identifier: Apache-2.0
//
// What was seen of a simulated job from outside: its processes, what has come out, what its report says.
#pragma once

#include "shells/front_end.hpp"
#include "shells/plan.hpp"

namespace nacre::shells {

struct Seen {
  const Plan& plan;
  const Kernel& kernel;
  int status = -1;                                     // of the leader, as waitpid(2) has it
  std::array<std::string, 3> output = {};              // of the leader, to 1 and 2
  std::map<std::uint32_t, std::uint32_t> starts = {};  // tries of a rank
  std::map<std::uint32_t, int> exec_errors = {};  // by rank: the errno of its last try, which could not be started
  Nanoseconds first_start = kNever;               // of a task
  Nanoseconds last_fault = 0;
  std::set<pid_t> stopped = {};  // shells that stood still
  std::set<pid_t> apart = {};    // shells that could not reach the leader
  bool are_links_cut = false;
  bool are_newcomers_harmed = false;
  bool is_faulted = false;  // the job had a fault
  std::vector<std::unique_ptr<FrontEnd>> front_ends = {};
  Json report = {};          // null: there is none
  std::string witness = {};  // the text of the witness's file
  std::string defect = {};   // a broken rule that was seen while the job ran
};

std::uint32_t number_of(const Process& shell);

// The broken rule; "": all is as it should be.
std::string check(const Seen& seen);

}  // namespace nacre::shells
