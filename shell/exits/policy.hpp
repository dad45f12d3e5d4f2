// SPDX-License-Identifier: Apache-2.0
//
// From how the tasks of a job ended to the job's exit code.
#pragma once

#include "exits/outcomes.hpp"

namespace nacre::exits {

class Policy {
 public:
  // The largest code of all tasks; 0 if there are none. Victims count as nothing.
  static Policy max() { return {}; }

  [[nodiscard]] int code(const Outcomes& outcomes) const;  // 0..255

 private:
  Policy() = default;
};

}  // namespace nacre::exits
