// SPDX-License-Identifier: Apache-2.0
//
// How a simulated job changes while it runs: its options, what is ordered, and what becomes of shells that it grows
// by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elastic/recovery.hpp"
#include "job/options.hpp"
#include "random.hpp"
#include "world.hpp"

namespace nacre::sim {

struct Order {
  enum class What : std::uint8_t { shrink, grow, restart };
  What what = What::shrink;
  Time at{};                // after the start of all tasks, or before it
  Idset ids;                // shells to leave, or ranks to start again; none: all tasks
  std::uint32_t count = 1;  // shells that are to join
  bool all = false;         // ... or none of them
  Time grace{};             // of those that leave
};

// A shell that the job grows by.
struct Newcomer {
  enum class Fate : std::uint8_t { joins, never_comes, fails_to_start, fails, crashes };
  Fate fate = Fate::joins;
  Time comes{};    // after the order
  Time crashes{};  // after that
};

struct Changes {
  std::uint32_t spares = 0;  // the last shells, which have no tasks
  bool restarts = false;     // tasks that fail, if they are not ended by a signal from outside
  job::RestartOption::Scope scope = job::RestartOption::Scope::task;
  elastic::Restarts::Limits limits;
  bool replaces = false;   // on-lost=replace
  bool takes_any = false;  // where=any
  bool to_spare = false;   // where=spare
  std::vector<Order> orders;
};

Changes make_changes(Random& random, std::uint32_t members, std::size_t tasks);
Newcomer make_newcomer(std::uint64_t seed, Id id);
std::string brief(const Order& order);

}  // namespace nacre::sim
