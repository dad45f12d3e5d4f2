// SPDX-License-Identifier: Apache-2.0
#include "front/launch_signals.hpp"

#include <csignal>
#include <utility>

namespace nacre::front {

bool LaunchSignals::ends_programs(int signum) {
  return signum == SIGINT || signum == SIGTERM || signum == SIGHUP || signum == SIGQUIT;
}

LaunchSignals::Act LaunchSignals::on_signal(int signum, double now, bool begun) {
  if (!ends_programs(signum)) return Act::pass;
  bool again = false;
  if (signum == SIGINT) {
    auto before = std::exchange(interrupted_, now);
    again = before && now - *before < kTwice;
  } else {
    auto [first, is_first] = terminated_.try_emplace(signum, now);
    again = !is_first && now - first->second >= kApart;
  }
  if (ended_by_) return again ? Act::kill : Act::pass;
  if (begun && !again) return Act::pass;
  ended_by_ = signum;
  return begun ? Act::end : Act::cancel;
}

std::optional<int> LaunchSignals::terminated_since(double since) const {
  for (const auto& [signum, first] : terminated_) {
    if (first >= since) return signum;
  }
  return {};
}

bool LaunchSignals::leaves(double now) const { return !ended_by_ && interrupted_ && now - *interrupted_ < kTwice; }

void LaunchSignals::end_by(int signum) {
  if (!ended_by_) ended_by_ = signum;
}

}  // namespace nacre::front
