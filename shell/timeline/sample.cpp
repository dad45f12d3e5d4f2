// SPDX-License-Identifier: Apache-2.0
#include "timeline/sample.hpp"

#include <algorithm>
#include <numeric>

namespace nacre::timeline {

std::vector<bool> sample_of(const std::vector<Sampled>& all, std::size_t budget) {
  constexpr std::size_t kOneOf = 100;
  std::size_t sum = 0;
  for (const Sampled& each : all) sum += each.events;
  if (sum <= budget) return std::vector<bool>(all.size(), true);
  std::vector<bool> out(all.size(), false);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::size_t slowest = std::max<std::size_t>(1, all.size() / kOneOf);
  auto end = order.begin() + static_cast<std::ptrdiff_t>(slowest);
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t one, std::size_t other) {
    return all[one].time != all[other].time ? all[one].time > all[other].time : one < other;
  });
  std::size_t used = 0;
  for (auto each = order.begin(); each != end; ++each) {
    if (each != order.begin() && used + all[*each].events > budget) break;
    out[*each] = true;
    used += all[*each].events;
  }
  // One of the others is taken whenever the events so far have come to the next multiple of their share.
  std::size_t room = budget > used ? budget - used : 0;
  std::size_t left = sum - used;
  std::size_t passed = 0, taken = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (out[i]) continue;
    passed += all[i].events;
    bool is_due = static_cast<double>(taken + all[i].events) <=
                  static_cast<double>(passed) * static_cast<double>(room) / static_cast<double>(left);
    if (!is_due) continue;
    out[i] = true;
    taken += all[i].events;
  }
  return out;
}

}  // namespace nacre::timeline
