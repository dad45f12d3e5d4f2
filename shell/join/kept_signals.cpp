// SPDX-License-Identifier: Apache-2.0
#include "join/kept_signals.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace nacre::join {
namespace {

bool stops(int signum) { return signum == SIGSTOP || signum == SIGTSTP || signum == SIGTTIN || signum == SIGTTOU; }

}  // namespace

void KeptSignals::keep(int signum) {
  auto replaced = [signum](int each) {
    return each == signum || (signum == SIGCONT && stops(each)) || (stops(signum) && each == SIGCONT);
  };
  signals_.erase(std::remove_if(signals_.begin(), signals_.end(), replaced), signals_.end());
  signals_.push_back(signum);
}

std::vector<int> KeptSignals::take() { return std::exchange(signals_, {}); }

}  // namespace nacre::join
