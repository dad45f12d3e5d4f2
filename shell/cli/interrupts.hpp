// SPDX-License-Identifier: Apache-2.0
//
// For long work that a signal should end, but only at certain points. While one of these objects exists the signals
// by which people and managers end a program (SIGINT, SIGTERM, SIGHUP, SIGQUIT) are blocked in this thread, and in
// those that it starts. The work asks for them now and then, and if one has come it cleans up and ends. The
// destructor delivers them.
#pragma once

#include "base/signals.hpp"

namespace nacre::cli {

class Interrupts {
 public:
  Interrupts();

  // One of the signals that have come since, if any has. Signals that this process ignores do not count.
  [[nodiscard]] std::optional<int> pending() const;

 private:
  SignalsBlocked held_;
};

}  // namespace nacre::cli
