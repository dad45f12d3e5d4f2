// SPDX-License-Identifier: Apache-2.0
//
// Smaller numbers for tests that repeat something very often. Sanitizers make that slow, so the build of `make
// check` has a tenth of them; that of `make check-long`, without NACRE_FEWER, has all.
#pragma once

#include <cstddef>

namespace nacre::kit {

template <typename Count>
constexpr Count fewer(Count all, Count divisor = 10) {
#ifdef NACRE_FEWER
  return all / divisor;
#else
  static_cast<void>(divisor);
  return all;
#endif
}

// The step in a loop over all numbers of a range: each, or each `nth` of them.
constexpr std::size_t step(std::size_t nth) { return nth / fewer(nth, nth); }

}  // namespace nacre::kit
