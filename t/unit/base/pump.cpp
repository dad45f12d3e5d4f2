// SPDX-License-Identifier: Apache-2.0
#include "base/pump.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT

TEST_CASE("what a step asks for is done after it, in its order, before the outermost call returns") {
  Pump pump;
  std::deque<std::string> asked{"a", "b"};
  std::string done;
  int refused = 0;
  auto step = [&](auto& self) -> bool {
    if (asked.empty()) return false;
    std::string next = asked.front();
    asked.pop_front();
    if (next == "a") asked.emplace_back("c");
    if (!pump.run([&] { return self(self); })) ++refused;
    done += next;
    return true;
  };
  CHECK(pump.run([&] { return step(step); }));
  CHECK(done == "abc");
  CHECK(refused == 3);
  CHECK(pump.run([&] { return step(step); }));
  CHECK(refused == 3);
}
