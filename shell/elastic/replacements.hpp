// SPDX-License-Identifier: Apache-2.0
//
// Where the tasks of a lost shell start again, as the leader decides it: on a spare, or spread over other shells.
// A spare is promised to one lost shell until the log has the decision, and is free again if that does not stand,
// as something else came before it; so is the room that other shells have.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "job/job.hpp"
#include "value/idset.hpp"

namespace nacre::elastic {

class Replacements {
 public:
  // What a shell has for tasks, or what tasks need.
  struct Room {
    std::uint64_t cores = 0;
    std::uint64_t gpus = 0;
  };
  struct Spare {
    std::uint32_t shell = 0;
    Room room;
  };
  struct Other {
    std::uint32_t shell = 0;
    std::uint64_t tasks = 0;  // that have not ended
    std::uint64_t room = 0;   // for so many more
  };

  // What the slots of these tasks have, but no more than the node that they were on, and no cores where tasks may
  // share them.
  static Room needed(const job::Job& job, std::uint32_t shell, const value::Idset& ranks, bool shares_cores);

  // The first of `spares`, which are alive and have no tasks, that is not promised and has what is needed. ENOENT:
  // there is none; the message says why: "there is no spare left".
  Result<std::uint32_t> choose(std::span<const Spare> spares, Room needed);
  // A shell for each of so many tasks: one by one that with the fewest, of those that have room; of equal ones the
  // first. ENOSPC: not all of them find room; the message says how many: "the other shells have room for 1 of 2
  // tasks".
  Result<std::vector<std::uint32_t>> spread(std::span<const Other> others, std::uint64_t tasks);
  // The log has the decision that so many tasks go to this shell, whether it stands or not.
  void ordered(std::uint32_t shell, std::uint64_t tasks);

 private:
  value::Idset promised_;
  std::map<std::uint32_t, std::uint64_t> coming_;  // tasks, by shell
};

// What the leader announces of the tasks of a lost shell that start again elsewhere (doc/protocol.md).
struct Replacement {
  // All tasks of the job start again with them.
  struct All {
    std::uint64_t restarts = 0;        // of the job, when the leader has decided it
    double ran = 0;                    // seconds, since all have started together
    std::optional<double> delay = {};  // they wait to start again already, so this uses no other restart; seconds
  };

  std::vector<job::Move> moves;  // all from one shell; at least one
  std::optional<All> all = {};   // none: only they start again

  [[nodiscard]] std::uint32_t from() const { return moves.front().from; }
  [[nodiscard]] value::Idset ranks() const;

  [[nodiscard]] std::string text() const;
  // In a job of so many shells and tasks. EINVAL: it is none.
  static Result<Replacement> parse(std::string_view text, std::uint32_t shells, std::uint64_t tasks);
};

}  // namespace nacre::elastic
