// SPDX-License-Identifier: Apache-2.0
//
// What shells announce of tasks that have ended, and are to be started again (doc/protocol.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "job/job.hpp"
#include "value/idset.hpp"

namespace nacre::elastic {

struct RestartEnd {
  value::Idset::Id rank;
  std::uint32_t attempt;  // that has ended
  exits::Record record;   // which has a status
  double ran;             // seconds
};

struct RestartMessage {
  std::uint32_t shell = 0;
  bool whole = false;            // all tasks of the job have to start again
  bool ordered = false;          // by `nacre restart`
  std::vector<RestartEnd> ends;  // none only if all have been ordered to start again
  std::uint64_t restarts = 0;    // of the job, when the leader answers such an order
  std::string why_not;           // of the leader's answer
  // Where tasks start again together: of the first of `ends`, which has failed first as far as its shell knows.
  // None: nobody has compared them.
  std::optional<exits::Origin> origin = {};
  std::string doubt;  // exits::doubt_of() it

  static constexpr std::string_view kAsked = "shell.restart-asked";        // topics of the two announcements
  static constexpr std::string_view kAnswered = "shell.restart-answered";  // by the leader

  // In a job of so many shells. EINVAL: it is none.
  static Result<RestartMessage> parse(std::string_view bytes, std::uint32_t shells);
  [[nodiscard]] std::string asked() const;     // the text by which a shell asks
  [[nodiscard]] std::string answered() const;  // ... and the leader's answer where all tasks are to start again
};

// With where=spare: tasks of a shell whose wait is over, and that are to start on a spare.
struct SpareRequest {
  std::uint32_t shell = 0;
  bool together = false;  // they start on one shell (scope=node); else each for itself
  std::vector<std::pair<value::Idset::Id, std::uint32_t>> starts;  // rank, and the start that is due; at least one

  [[nodiscard]] std::string text() const;
  // In a job of so many shells and tasks. EINVAL: it is none.
  static Result<SpareRequest> parse(std::string_view bytes, std::uint32_t shells, std::uint64_t tasks);
};

// Where the tasks of a request start.
struct SparePlaces {
  std::vector<job::Move> moves = {};  // these have been noted in the job
  value::Idset stay = {};             // no spare can take them: they start where they were
  std::string why = {};               // ... "there is no spare left"
};

// Of ends that are alike: what has been decided.
struct RestartDecision {
  value::Idset ranks;
  exits::Record record;
  std::uint32_t attempt = 0;  // that begins
  double delay = 0;
  std::uint64_t first = 0, last = 0;  // restarts of the job, of those that the option has
  std::string why_not = {};           // empty: it is granted
  bool whole = false;                 // all tasks of the job start again
  value::Idset together = {};         // those that start, if not only `ranks` do
  value::Idset first_failed = {};     // of `ranks`: which has ended as `record`, where they start together
  std::string doubt = {};             // exits::doubt_of() that it was the first
  bool ordered = false;
  bool stands = true;  // false: something else came before what was asked
  SparePlaces places =
      {};  // with where=spare, where all tasks of the job start again: those of the shell of `ranks`

  // It starts on another shell.
  [[nodiscard]] bool moves(value::Idset::Id rank) const {
    return std::any_of(places.moves.begin(), places.moves.end(),
                       [&](const job::Move& each) { return each.ranks.contains(rank); });
  }
  [[nodiscard]] bool is_granted() const { return stands && why_not.empty(); }
  [[nodiscard]] bool takes_in(const RestartDecision& next) const;
};

}  // namespace nacre::elastic
