// SPDX-License-Identifier: Apache-2.0
//
// What the service knows of tasks that start again. PMIx knows no second start of a rank that it has known, so all
// tasks do, in a namespace of their own; libpmix goes on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "flux.hpp"
#include "server.hpp"

namespace nacre::pmix {

bool may_start_again(flux_shell_t* shell);  // the option `restart`; not with fault-tolerance

struct RestartState {
  struct Next {
    std::uint64_t start = 0;
    JobFacts facts;
  };
  struct Abort {
    int status = 0;
    std::string message;
  };

  bool is_on = false;
  std::optional<Next> next;             // all tasks are going to start again
  std::map<pmix_rank_t, Abort> aborts;  // of tasks that have called PMIx_Abort, until it is known how they end
  std::set<std::uint32_t> lost;         // shells, those that have left included
  bool is_damaged = false;              // what libpmix has of this start; see end_former_start()
  std::vector<pmix_proc_t> former;      // the processes of the start before, which libpmix still has
};

}  // namespace nacre::pmix
