// SPDX-License-Identifier: Apache-2.0
//
// What PMIx_Spawn requests, and whom to answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "flux.hpp"

namespace nacre::pmix {

struct SpawnApp {
  std::vector<std::string> argv, env;
  std::string directory;
  int count = 1;
  std::string hosts = {};  // where to run, separated by commas
};

using SpawnNumber = std::pair<std::uint64_t, std::uint64_t>;  // of which start of all tasks, and which one of it

struct SpawnReply {
  pmix_proc_t id;
  pmix_spawn_cbfunc_t function;
  void* data;
};

// Of the start of all tasks that has begun.
struct SpawnState {
  std::map<SpawnNumber, std::string> namespaces;
  std::map<std::uint64_t, SpawnReply> replies;  // by this shell's number of the request
  std::uint64_t requests = 0;                   // in all starts
};

// Asks the builtin plugin pmi, by the topic pmi.spawning. 0: it does not say, or false.
std::uint32_t ask_spawning(flux_shell_t* shell, const char* what);

}  // namespace nacre::pmix
