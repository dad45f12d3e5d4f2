// SPDX-License-Identifier: Apache-2.0
//
// Shells that are taken out of a job as planned.
#pragma once

#include <optional>

#include "value/idset.hpp"

namespace nacre::value {

struct ShrinkOrder {
  Idset shells;
  int signum = 15;              // that their tasks get first; SIGTERM
  std::optional<double> grace;  // seconds until SIGKILL; none: kill-timeout
};

// How a shrink has ended, for the shells that it was for.
struct Shrunk {
  Idset gone;         // they have ended their tasks, and have left
  Idset unconfirmed;  // what has become of them is not known

  bool operator==(const Shrunk&) const = default;
};

}  // namespace nacre::value
