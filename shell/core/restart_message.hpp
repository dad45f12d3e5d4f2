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

namespace nacre::core {

struct RestartEnd {
  value::Idset::Id rank;
  std::uint32_t attempt;  // that has ended
  exits::Record record;   // which has a status
  double ran;             // seconds
};

struct RestartMessage {
  std::uint32_t shell = 0;
  bool whole = false;            // all tasks of the job have to start again
  std::vector<RestartEnd> ends;  // at least one
  std::string why_not;           // of the leader's answer

  // In a job of so many shells. EINVAL: it is none.
  static Result<RestartMessage> parse(std::string_view bytes, std::uint32_t shells);
};

}  // namespace nacre::core
