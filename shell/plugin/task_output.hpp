// SPDX-License-Identifier: Apache-2.0
//
// What is known of the tasks' output, for plugins that report how tasks have ended: output comes first.
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

  // On the leader: the tasks that have failed and whose output has come out. Their streams have ended, and none of it
  // waits in the shells. The tasks of a shell that is lost, or that has put out all, count too.
  virtual value::Idset come_out() = 0;
  // For a task of this shell; none: unknown.
  virtual std::optional<Tail> tail(std::uint32_t rank) = 0;
};

}  // namespace nacre::plugin
