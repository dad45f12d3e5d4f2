// SPDX-License-Identifier: Apache-2.0
#include "elastic/starts.hpp"

#include <algorithm>

#include "base/invariant.hpp"

namespace nacre::elastic {

std::map<Starts::Attempt, value::Idset> Starts::ranks(const Idset& numbers) const {
  std::map<Attempt, Idset> out;
  for (const Idset::Range& range : numbers.ranges()) {
    for (std::uint64_t first = range.first; first <= range.last;) {
      std::uint64_t start = first / tasks_;
      std::uint64_t last = std::min<std::uint64_t>(range.last, (start + 1) * tasks_ - 1);
      out[static_cast<Attempt>(start + 1)].insert(static_cast<Idset::Id>(first - start * tasks_),
                                                  static_cast<Idset::Id>(last - start * tasks_));
      first = last + 1;
    }
  }
  return out;
}

void ExpectedStarts::expect(const Idset& ranks, Starts::Attempt attempt) {
  INVARIANT(attempt > 1);
  for (auto& [other, expected] : later_) expected = expected - ranks;
  later_[attempt].insert(ranks);
}

value::Idset ExpectedStarts::current(const Idset& ranks, Starts::Attempt attempt) const {
  Idset out = attempt == 1 ? ranks : Idset();
  for (const auto& [other, expected] : later_) {
    if (other == attempt) out = out | (ranks & expected);
    if (attempt == 1) out = out - expected;
  }
  return out;
}

}  // namespace nacre::elastic
