// SPDX-License-Identifier: Apache-2.0
//
// What some shells of a job are to start, beside what they have started at its beginning.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "value/idset.hpp"

namespace nacre::value {

struct ExecOrder {
  enum class Kind : std::uint8_t {
    tasks,  // of the job
    tool,   // no task: the job neither waits for it nor has its exit code
  };

  // The ranks of tasks by shell. Of a tool they are those that it runs beside; empty: none in particular.
  std::map<std::uint32_t, Idset> shares;
  std::string command;  // bytes that only the two ends know
  // It is refused if one of the shells is lost. Else the ranks of that shell go to the others.
  bool strict = false;
  Kind kind = Kind::tasks;
};

struct ExecAnswer {
  std::uint64_t number = 0;  // of the order, from 1: the same on all shells, used once in a job. 0: it is refused
  Idset lost;                // the shells because of which it is refused
};

// An order as one of its shells receives it.
struct ExecShare {
  std::uint64_t number = 0;
  Idset ranks;
  std::string command;
  ExecOrder::Kind kind = ExecOrder::Kind::tasks;
};

}  // namespace nacre::value
