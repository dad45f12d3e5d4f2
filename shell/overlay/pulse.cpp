// SPDX-License-Identifier: Apache-2.0
#include "overlay/pulse.hpp"

#include <algorithm>

namespace nacre::overlay {
namespace {

constexpr std::uint64_t kLatest = std::uint64_t{1}
                                  << 50;  // milliseconds: larger numbers would not fit as microseconds

}  // namespace

std::uint64_t Pulse::make(Time now) {
  made_ = now;
  auto clock = static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(now).count());
  return number_ = std::max(number_ + 1, clock);
}

bool Pulse::receive(std::uint64_t number, Time now) {
  if (number <= number_) return false;
  number_ = number;
  // The beat was made at its number plus the least delay of all beats: one that was held up on its way proves
  // little.
  Time made = milliseconds(std::min(number, kLatest));
  least_delay_ = std::min(least_delay_, now - made);
  made_ = std::max(made_, made + least_delay_);
  return true;
}

void Pulse::wake(Time now) {
  if (woke_ <= made_) woke_ = now;
}

Time Pulse::starving_at(std::uint32_t depth) const {
  return std::max(made_, woke_) + options_.beat_bound + depth * options_.beat_bound_per_level;
}

Time Pulse::fence_at() const {
  return std::max(made_ + options_.fence, std::max(woke_, lives_) + options_.hello_bound);
}

}  // namespace nacre::overlay
