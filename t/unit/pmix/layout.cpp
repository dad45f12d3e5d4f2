// SPDX-License-Identifier: Apache-2.0
#include "peer_message.hpp"

#include "catch.hpp"

using namespace nacre::pmix;  // NOLINT

TEST_CASE("ranks as text, and back") {
  using Ranks = std::vector<Rank>;
  const std::pair<Ranks, std::string> samples[] = {
      {{}, ""}, {{0}, "0"}, {{0, 1, 2, 3}, "0-3"}, {{1, 3, 4, 9}, "1,3-4,9"}, {{0, 4294967294}, "0,4294967294"},
  };
  for (const auto& [ranks, text] : samples) {
    CHECK(text_of(ranks) == text);
    CHECK(ranks_in(text) == ranks);
  }
  for (const char* text : {",", "1,", ",1", "x", "1-", "-1", "3-1", "1,1", "2,1", "1-3,3", "1 2", "0-4294967294",
                           "4294967296", "1-2-3"}) {
    INFO(text);
    CHECK_FALSE(ranks_in(text));
  }
}

TEST_CASE("hosts of one name are told apart") {
  using Names = std::vector<std::string>;
  CHECK(distinct({"a", "b"}) == Names{"a", "b"});
  CHECK(distinct({"a", "a", "b", "a"}) == Names{"a", "a-1", "b", "a-3"});
  CHECK(distinct({"a", "a", "a-1", "a-2"}) == Names{"a", "a-1-", "a-1", "a-2"});
  CHECK(distinct({"a", "a-1", "a"}) == Names{"a", "a-1", "a-2"});
}
