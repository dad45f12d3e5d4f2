// SPDX-License-Identifier: Apache-2.0
//
// Which spare takes over the tasks of a lost shell, as the leader decides it. A spare is promised to one lost shell
// until the log has the decision, and is free again if that does not stand, as something else came before it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
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

  // The first of `spares`, which are alive and have no tasks, that is not promised and has what is needed. ENOENT:
  // there is none; the message says why: "there is no spare left".
  Result<std::uint32_t> choose(std::span<const Spare> spares, Room needed);
  // The log has the decision for this spare, whether it stands or not.
  void ordered(std::uint32_t spare) { promised_.remove(spare); }

 private:
  value::Idset promised_;
};

}  // namespace nacre::elastic
