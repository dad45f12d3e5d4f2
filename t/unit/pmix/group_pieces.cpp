// SPDX-License-Identifier: Apache-2.0
#include "groups.hpp"

#include "catch.hpp"

using namespace nacre::pmix;  // NOLINT

TEST_CASE("pieces of a group's data, one after the other, and back; the first that is invalid ends them") {
  using Kind = GroupPiece::Kind;
  const std::vector<GroupPiece> pieces = {
      {Kind::bytes, std::string("a\0:b3:", 6)}, {Kind::infos, ""}, {Kind::infos, "i1:x"}, {Kind::bytes, "c"}};
  std::string text;
  for (const GroupPiece& each : pieces) text += text_of(each);
  CHECK(pieces_in(text) == pieces);
  CHECK(pieces_in("").empty());
  for (const char* invalid :
       {"x1:a", "b", "b:", "b1", "b1:", "b-1:a", "b 1:a", "b99999999999999999999:a", "bx:a"}) {
    INFO(invalid);
    CHECK(pieces_in(text + invalid) == pieces);
  }
}
