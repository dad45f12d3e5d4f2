// SPDX-License-Identifier: Apache-2.0
//
// What the leader announces of the tasks of a lost shell that start again elsewhere (doc/protocol.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "job/job.hpp"

namespace nacre::elastic {

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
