// SPDX-License-Identifier: Apache-2.0
#include "event/clock.hpp"

#include "catch.hpp"

using namespace nacre;

TEST_CASE("clock_now goes on while the loop does not turn") {
  auto loop = event::Loop::create();
  REQUIRE(loop);
  double standing = (*loop)->now();
  event::Seconds start = event::clock_now();
  while (event::clock_now() - start < event::Seconds(0.002)) {
  }
  CHECK((*loop)->now() == standing);
  CHECK(event::clock_now() > start);
}
