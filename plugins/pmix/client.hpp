// SPDX-License-Identifier: Apache-2.0
//
// The state of the processes that the service serves.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "flux.hpp"
#include "server.hpp"

namespace nacre::pmix {

// A process that may become a client: a task of this shell, or one that a client has spawned.
struct PmixClient {
  enum class State {
    absent,     // has not called PMIx_Init, as far as is known
    connected,  // is between PMIx_Init and PMIx_Finalize
    finalized,
    aborted,  // has called PMIx_Abort
  };

  flux_shell_task_t* task = nullptr;  // nullptr: it was spawned
  pid_t pid = 0;                      // of one that was spawned, while it runs
  std::string command;
  State state = State::absent;
  bool started = false;
  bool ended = false;
  bool lost = false;  // its connection is lost, and the server outlives it
  int wait_status = 0;
};

struct Namespace {
  JobFacts facts;
  std::map<pmix_rank_t, PmixClient> clients;  // those of this node
  // Of one that was spawned:
  std::uint32_t task = 0;   // the rank as whose output theirs comes out
  std::size_t running = 0;  // on this node
  bool cancelled = false;   // not all could be started: the others are ended, and that is no failure
};

}  // namespace nacre::pmix
