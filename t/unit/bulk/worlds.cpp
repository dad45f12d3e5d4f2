// SPDX-License-Identifier: Apache-2.0
//
// One seed again: unit_transfer "bulk in worlds that change" -c "hundred 3" -c "seed 317"
#include "catch.hpp"

#include "world.hpp"

namespace nacre::bulk {
namespace {

// With sanitizers each world takes ten times as long.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NACRE_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define NACRE_SANITIZED
#endif
#ifdef NACRE_SANITIZED
constexpr std::uint64_t kSeeds = 100;
#else
constexpr std::uint64_t kSeeds = 2000;
#endif

}  // namespace

// In sections of sections, as Catch2 looks for one among its neighbours.
TEST_CASE("bulk in worlds that change") {
  for (std::uint64_t hundred = 0; hundred * 100 < kSeeds; ++hundred) {
    DYNAMIC_SECTION("hundred " << hundred) {
      for (std::uint64_t seed = hundred * 100; seed < hundred * 100 + 100; ++seed) {
        DYNAMIC_SECTION("seed " << seed) {
          try {
            World(seed).run();
          } catch (const Broken& broken) {
            FAIL(broken.what);
          }
        }
      }
    }
  }
}

}  // namespace nacre::bulk
