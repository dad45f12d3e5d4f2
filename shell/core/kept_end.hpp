// SPDX-License-Identifier: Apache-2.0
//
// What ShellRestart has of tasks that have ended, and are to be started again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "elastic/restart_message.hpp"
#include "event/loop.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "job/job.hpp"
#include "task/task.hpp"
#include "value/duration.hpp"
#include "value/idset.hpp"

namespace nacre::core {

// An end that is kept back.
struct KeptEnd {
  // moving: its wait is over, and where it starts is still to be decided (where=spare)
  enum class State : std::uint8_t { asked, waiting, moving, due, starting, together };

  task::Task* task;  // that has ended
  exits::Record record;
  exits::FailureFacts failure;  // why it has ended so
  bool whole = false;           // only all tasks of the job can start again
  bool ordered = false;         // by nacre restart
  State state = State::asked;
  std::uint32_t attempt = 0;   // once it is granted: the next start
  std::uint64_t restarts = 0;  // of the job by then
  std::optional<event::Timer> timer = {};
};

// Tasks that go to a spare, or come to this shell (where=spare, on-lost=replace).
struct MovingTasks {
  using Rank = value::Idset::Id;

  std::vector<Rank> unsent = {};  // whose wait is over
  // Signals to end that have come since then, by rank: they are sent to the task once it runs there.
  std::map<Rank, std::set<int>> late = {};
  std::map<Rank, std::set<int>> coming = {};  // tasks that come to this shell, until they start: likewise
  std::function<void(const std::vector<job::Move>&)> moved = {};
  std::uint32_t last = 0;  // the last shell that had tasks before a restart of all moved some: it takes part, too

  [[nodiscard]] std::set<int> take_late(Rank rank) {
    auto found = late.extract(rank);
    return found.empty() ? std::set<int>() : found.mapped();
  }
};

[[nodiscard]] inline std::string when_of(const elastic::RestartDecision& decision) {
  return decision.delay > 0 ? "in " + value::Duration::of_seconds(decision.delay).str() : "now";
}

}  // namespace nacre::core
