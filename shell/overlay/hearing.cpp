// SPDX-License-Identifier: Apache-2.0
#include "overlay/hearing.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace nacre::overlay {
namespace {

// In seconds, of which two decimals are enough.
double rounded(Time time) {
  constexpr double kHundredth = 10'000;  // microseconds
  return static_cast<double>(std::llround(static_cast<double>(time.count()) / kHundredth)) / 100;
}

}  // namespace

void LastHeard::note(Time now) {
  last_ = now;
  if (any() && now - times_.back() < kApart) return;
  times_.push_back(now);
  if (times_.size() > kMost) times_.pop_front();
}

std::string LastHeard::text(Time now) const {
  if (!any()) return "nothing has come from it";
  std::string out = fmt::format("nothing has come from it for {:g} s", rounded(now - last()));
  std::string before;
  for (std::size_t i = 1; i < times_.size(); ++i) {
    const char* joint = before.empty() ? "" : i + 1 == times_.size() ? " and " : ", ";
    before += fmt::format("{}{:g}", joint, rounded(times_[i] - times_[i - 1]));
  }
  return before.empty() ? out : fmt::format("{} (before that {} s apart)", out, before);
}

void Lateness::note(Time now, Time late) {
  if (late < kLeast) return;
  if (!ticks_.empty() && now - ticks_.back().first < kApart) {
    ticks_.back().second = std::max(ticks_.back().second, late);
    return;
  }
  ticks_.emplace_back(now, late);
  if (ticks_.size() > kMost) ticks_.pop_front();
}

Time Lateness::most_since(Time since) const {
  Time most{};
  for (const auto& [at, late] : ticks_) {
    if (at >= since) most = std::max(most, late);
  }
  return most;
}

}  // namespace nacre::overlay
