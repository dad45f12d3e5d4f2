// SPDX-License-Identifier: Apache-2.0
#include "clients.hpp"

#include "catch.hpp"

using namespace nacre::pmix;  // NOLINT

TEST_CASE("a failure never becomes 0, and keeps its code where a process may have it") {
  CHECK(failure_code(0) == 1);
  CHECK(failure_code(1) == 1);
  CHECK(failure_code(255) == 255);
  CHECK(failure_code(256) == 255);
  CHECK(failure_code(300) == 44);
  CHECK(failure_code(-1) == 255);
  CHECK(failure_code(-2) == 254);
  CHECK(failure_code(-256) == 255);
  CHECK(failure_code(INT_MIN) == 255);
  CHECK(failure_code(INT_MAX) == 255);
}
