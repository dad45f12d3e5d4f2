// SPDX-License-Identifier: Apache-2.0
//
// What holds of the job that is served, in all starts of its tasks. PMIx knows no second start of a rank that it
// has known, so all tasks start again together, in a namespace of their own; libpmix goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "flux.hpp"
#include "server.hpp"

namespace nacre::pmix {

bool is_fault_tolerant(flux_shell_t* shell);  // the option `fault-tolerance`
bool may_start_again(flux_shell_t* shell);    // the option `restart`; not with fault-tolerance

struct ServedJob {
  struct Next {
    std::uint64_t start = 0;
    JobFacts facts;
  };

  // How a process ends has consequences only then.
  [[nodiscard]] bool goes_on() const { return !is_ending && !next; }

  bool tolerates_faults = false;
  bool may_restart = false;
  bool is_ending = false;         // or this shell leaves the job
  bool libpmix_may_hang = false;  // in its finalization
  std::optional<Next> next;       // all tasks are going to start again
  std::set<std::uint32_t> lost;   // shells, those that have left included
};

}  // namespace nacre::pmix
