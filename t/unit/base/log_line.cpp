// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include "catch.hpp"

using namespace nacre;

TEST_CASE("a message as a line has its shell, its level unless that is notice, and its component") {
  CHECK(log_line({Level::notice, "", "", 0, "text"}, 3) == "nacre-shell[3]: text");
  CHECK(log_line({Level::warn, "oom", "f.cpp", 7, "text"}, 0) == "nacre-shell[0]: warn: oom: text");
  CHECK(log_line({Level::error, "", "", 0, "text", 5}, 3) == "nacre-shell[5]: error: text");
}
