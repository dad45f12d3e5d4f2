// SPDX-License-Identifier: Apache-2.0
#include "peer_message.hpp"

#include "catch.hpp"

using namespace nacre::pmix;  // NOLINT

TEST_CASE("each process of all namespaces has a number, and a node") {
  ProcessMap map;
  map.add("job", 0, {{0, {0, 2}}, {1, {1}}});
  map.add("job-spawn-1", 3, {{1, {0}}, {2, {1}}});
  CHECK(map.number_of("job", 2) == Rank{2});
  CHECK(map.number_of("job-spawn-1", 0) == Rank{3});
  CHECK_FALSE(map.number_of("job", 3));
  CHECK_FALSE(map.number_of("job-spawn-2", 0));
  CHECK(map.knows("job-spawn-1"));
  CHECK_FALSE(map.knows("job-spawn-2"));
  CHECK(map.numbers_of("job") == std::vector<Rank>{0, 1, 2});
  CHECK(map.numbers_of("job-spawn-1") == std::vector<Rank>{3, 4});
  CHECK(map.numbers_of("job-spawn-2").empty());
  CHECK(map.numbers_on(1) == std::vector<Rank>{1, 3});
  CHECK(map.nodes_of("job-spawn-1") == std::set<std::uint32_t>{1, 2});
  REQUIRE(map.find(4) != nullptr);
  CHECK(*map.find(4)->nspace == "job-spawn-1");
  CHECK(map.find(4)->rank == 1);
  CHECK(map.find(4)->node == 2);
  CHECK(map.find(5) == nullptr);
}
