// SPDX-License-Identifier: Apache-2.0
//
// Catch2, version 2.13 or 3, by the names of version 3.
#pragma once

#include "base/usual.hpp"

#if __has_include(<catch2/catch_all.hpp>)

#include <catch2/catch_all.hpp>

#else

#include <catch2/catch.hpp>

namespace Catch {
using Detail::Approx;
inline auto getSeed() { return rngSeed(); }
}  // namespace Catch

namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text, CaseSensitive::Choice sensitivity = CaseSensitive::Yes) {
  return Contains(text, sensitivity);
}
}  // namespace Catch::Matchers

#endif
