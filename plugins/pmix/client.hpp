// SPDX-License-Identifier: Apache-2.0
//
// The state of the processes that the service serves.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

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

  flux_subprocess_t* process = nullptr;
  flux_shell_task_t* task = nullptr;  // nullptr: it was spawned
  std::string command;
  State state = State::absent;
  bool started = false;
  bool ended = false;
  bool lost = false;  // its connection is lost, and the server outlives it
  int wait_status = 0;
};

void signal_all(const std::vector<PmixClient*>& clients, int signum);  // those that run

struct Namespace {
  JobFacts facts;
  std::map<pmix_rank_t, PmixClient> clients;  // those of this node
  std::size_t running = 0;                    // of spawned processes
  bool cancelled = false;  // not all could be started: the others are ended, and that is no failure
};

}  // namespace nacre::pmix
