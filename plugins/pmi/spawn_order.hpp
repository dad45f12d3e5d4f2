// SPDX-License-Identifier: Apache-2.0
//
// What a shell tells all others of a spawn that a process of its own has requested: doc/protocol.md, "What the
// shells say".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "pmi/spawn.hpp"
#include "task/command.hpp"

namespace nacre::plugins {

inline constexpr const char* kPmixLibrary = "pmix";  // and the name of its plugin

struct SpawnOrder {
  std::uint64_t start = 1;    // of the tasks, as PmiStart::number
  std::uint32_t shell = 0;    // that of the process that has requested it
  std::uint64_t request = 0;  // that shell's number of it
  std::uint32_t task = 0;     // the rank as whose output theirs comes out
  std::string spawner;        // the kvsname of the requesting process's group, or its namespace
  std::string library;        // "pmix"; empty: PMI-1 or PMI-2
  std::uint32_t client = 0;   // by PMIx: the process's rank in its namespace
  // Of the tasks: their limits, OOM score, scheduler, and whether each leads a session. For shells without a task.
  task::ChildSetup setup;
  pmi::Spawn spawn;

  [[nodiscard]] std::string encode() const;
  static Result<SpawnOrder> decode(std::string_view bytes);
  [[nodiscard]] bool by_pmix() const { return library == kPmixLibrary; }
};

// What all processes of the job have in common with a task.
void copy_common_setup(const task::ChildSetup& model, task::ChildSetup& out);

}  // namespace nacre::plugins
