// SPDX-License-Identifier: Apache-2.0
//
// What shells announce of tasks that have ended, and are to be started again (doc/protocol.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "exits/record.hpp"
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

  // In a job of so many shells. EINVAL: it is none.
  static Result<RestartMessage> parse(std::string_view bytes, std::uint32_t shells);
  [[nodiscard]] std::string asked() const;     // the text by which a shell asks
  [[nodiscard]] std::string answered() const;  // ... and the leader's answer where all tasks are to start again
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
  bool ordered = false;
  bool stands = true;  // false: something else came before what was asked

  [[nodiscard]] bool is_granted() const { return stands && why_not.empty(); }
  [[nodiscard]] bool takes_in(const RestartDecision& next) const;
};

}  // namespace nacre::elastic
