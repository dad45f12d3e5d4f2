// SPDX-License-Identifier: Apache-2.0
//
// What is known of the tasks' output, for those who report how tasks have ended: output first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "value/idset.hpp"

namespace nacre::plugin {

class TaskOutput {
 public:
  struct Tail {
    std::string out, err;      // the last bytes of each stream
    bool is_complete = false;  // the task has failed, and its streams have ended
  };

  virtual ~TaskOutput() = default;

  // The leader's: the tasks that have failed and whose output has come out. Their streams have ended, and nothing of them waits in the
  // shells. Those of a shell that is lost, or has put out all, count as such, too.
  virtual value::Idset come_out() = 0;
  // Of a task of this shell; none: it is not known.
  virtual std::optional<Tail> tail(std::uint32_t rank) = 0;
};

}  // namespace nacre::plugin
