// SPDX-License-Identifier: Apache-2.0
//
// What a shell has of tasks that have ended, and are to be started again, as core/kept_end.hpp.
#pragma once

#include <cstdint>

#include "exits/record.hpp"
#include "job_task.hpp"

namespace nacre::sim {

// An end that is kept back.
struct JobKeptEnd {
  enum class State : std::uint8_t { asked, waiting, moving, due, starting, together };

  JobTask* task = nullptr;
  exits::Record record;
  bool whole = false;
  bool ordered = false;
  State state = State::asked;
  std::uint32_t attempt = 0;
};

// A restart of all tasks of the job, or of this shell, that is under way.
struct JobTogether {
  std::uint64_t restarts = 0;
  Time delay{};
  bool is_node = false;
  std::uint64_t number = 0;  // of the job's restarts; 0: it was ordered
  bool ends = false;
  bool waits = false;
  bool is_due = false;
  bool ordered = false;
  bool moves = false;
};

}  // namespace nacre::sim
