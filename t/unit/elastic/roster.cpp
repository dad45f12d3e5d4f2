// SPDX-License-Identifier: Apache-2.0
#include "elastic/roster.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using elastic::Roster;

namespace {

value::Idset ids(const char* text) { return value::Idset::parse(text).value(); }

}  // namespace

TEST_CASE("a shell stays until it is lost or asked to leave, and is about to leave until it has gone") {
  Roster roster;
  CHECK(roster.stays(1));
  roster.note_leaving(ids("1-2"));
  CHECK_FALSE(roster.stays(1));
  CHECK(roster.leaves(1));
  CHECK(roster.gone().empty());
  roster.note_left(ids("1"));
  CHECK_FALSE(roster.leaves(1));
  CHECK(roster.is_to_leave(1));
  CHECK(roster.leaves(2));
  CHECK(roster.left().str() == "1");
  roster.note_lost(ids("3"));
  CHECK_FALSE(roster.stays(3));
  CHECK_FALSE(roster.is_to_leave(3));
  CHECK(roster.lost().str() == "3");
  CHECK(roster.gone().str() == "1,3");
  CHECK(roster.stays(0));
}

TEST_CASE(
    "shells that join stay once they are ready; those that have not come, or have gone by then, do not join") {
  Roster roster;
  roster.note_lost(ids("5"));
  CHECK(roster.note_joining(ids("4-6"), ids("7")).str() == "4,6");
  CHECK(roster.gone().str() == "5,7");
  CHECK_FALSE(roster.stays(4));
  roster.note_ready(4);
  CHECK(roster.stays(4));
  CHECK_FALSE(roster.stays(6));
  CHECK_FALSE(roster.stays(7));
}

TEST_CASE("a newcomer adds what the others have to what it has") {
  Roster others;
  others.note_lost(ids("2"));
  others.note_leaving(ids("1,3"));
  others.note_left(ids("3"));
  static_cast<void>(others.note_joining(ids("4-5"), {}));
  Json json = others.json();
  CHECK(json.dump() == R"({"joining":"4-5","leaving":"1,3","left":"3","lost":"2"})");
  Roster own;
  own.note_lost(ids("6"));
  REQUIRE(own.add(JsonAt::root(json)));
  CHECK(own.lost().str() == "2,6");
  CHECK(own.gone().str() == "2-3,6");
  CHECK(own.leaves(1));
  CHECK_FALSE(own.stays(4));
  CHECK(own.stays(0));
}

TEST_CASE("what is no roster is refused, with its place") {
  Roster roster;
  Json json = roster.json();
  json["left"] = "2-1";
  Result<void> added = roster.add(JsonAt::root(json));
  REQUIRE_FALSE(added);
  CHECK(added.error().message.find("left") != std::string::npos);
  json.erase("left");
  CHECK_FALSE(roster.add(JsonAt::root(json)));
}
