// SPDX-License-Identifier: Apache-2.0
//
// Long work that a signal should end, but not in the middle: while one of these lives, the signals by which people
// and managers end a program (SIGINT, SIGTERM, SIGHUP, SIGQUIT) are held back from this thread, and from those that
// it starts; the work asks for them now and then, stops, and cleans up. Destroying it delivers them.
#pragma once

#include <optional>

#include "base/signals_blocked.hpp"

namespace nacre::cli {

class Interrupts {
 public:
  Interrupts();

  // One of the signals that came since, if any did. One that this process ignores does not count.
  [[nodiscard]] std::optional<int> pending() const;

 private:
  SignalsBlocked held_;
};

}  // namespace nacre::cli
