// SPDX-License-Identifier: Apache-2.0
#include "timeline/clock.hpp"

#include <algorithm>
#include <cmath>

namespace nacre::timeline {
namespace {

Time drift_in(Time distance) { return std::llround(std::abs(static_cast<double>(distance)) * Clock::kMostDrift); }

}  // namespace

void Clock::add_exchange(Time sent, Time received, Time answered, Time taken) {
  if (taken < sent || answered < received) return;
  add({received + (answered - received) / 2, answered - taken, received - sent});
}

// Whoever passes it does so after all have entered.
void Clock::add_barrier(Time entered, Time passed, Time shell_entered, Time shell_passed) {
  if (passed < entered || shell_passed < shell_entered) return;
  add({shell_entered + (shell_passed - shell_entered) / 2, shell_entered - passed, shell_passed - entered});
}

void Clock::add(const Bounds& bounds) {
  if (bounds.width() < 0) return;
  auto next = std::upper_bound(bounds_.begin(), bounds_.end(), bounds.at,
                               [](Time at, const Bounds& each) { return at < each.at; });
  bool before = next != bounds_.begin() && bounds.at - std::prev(next)->at < kWindow;
  bool after = next != bounds_.end() && next->at - bounds.at < kWindow;
  if (before || after) {
    Bounds& other = before ? *std::prev(next) : *next;
    // The window stays where it is, so that bounds that come one after the other do not move it.
    if (bounds.width() < other.width()) other = {other.at, bounds.least, bounds.most};
    return;
  }
  bounds_.insert(next, bounds);
  if (bounds_.size() <= kMostBounds) return;
  std::size_t index = 0;
  std::erase_if(bounds_, [&](const Bounds&) { return ++index % 2 == 0 && index < kMostBounds; });
}

Clock::Offset Clock::measured(Time time) const {
  if (bounds_.empty()) return {};
  auto next = std::upper_bound(bounds_.begin(), bounds_.end(), time,
                               [](Time at, const Bounds& each) { return at < each.at; });
  auto of_one = [&](const Bounds& one) {
    return Offset{one.middle(), (one.width() + 1) / 2 + drift_in(time - one.at)};
  };
  if (next == bounds_.begin()) return of_one(*next);
  const Bounds& before = *std::prev(next);
  if (next == bounds_.end()) return of_one(before);
  double part = static_cast<double>(time - before.at) / static_cast<double>(next->at - before.at);
  Time value = before.middle() + std::llround(part * static_cast<double>(next->middle() - before.middle()));
  Time wide = (std::max(before.width(), next->width()) + 1) / 2;
  return {value, wide + drift_in(std::min(time - before.at, next->at - time))};
}

Time Clock::to_leader(Time time) const { return is_same_ ? time : time - measured(time).value; }

Time Clock::uncertainty(Time time) const { return is_same_ ? 0 : measured(time).uncertainty; }

}  // namespace nacre::timeline
