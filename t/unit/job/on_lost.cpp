// SPDX-License-Identifier: Apache-2.0
#include "job/options.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using job::OnLost;
using job::Options;

TEST_CASE("on-lost: what each value means, and tolerate-loss beside it") {
  CHECK(OnLost::read(Options()).value() == OnLost{false, false});
  CHECK(OnLost::read(Options(Json{{"tolerate-loss", true}})).value() == OnLost{false, true});
  CHECK(OnLost::read(Options(Json{{"on-lost", "end"}})).value() == OnLost{false, false});
  CHECK(OnLost::read(Options(Json{{"on-lost", "go-on"}})).value() == OnLost{false, true});
  CHECK(OnLost::read(Options(Json{{"on-lost", "replace"}})).value() == OnLost{true, false});
  CHECK(OnLost::read(Options(Json{{"on-lost", "replace,else=end"}})).value() == OnLost{true, false});
  CHECK(OnLost::read(Options(Json{{"on-lost", "replace,else=go-on"}})).value() == OnLost{true, true});
  CHECK(OnLost::read(Options(Json{{"on-lost", "go-on"}, {"tolerate-loss", 1}})).value() == OnLost{false, true});
  CHECK(OnLost::read(Options(Json{{"on-lost", "replace"}, {"tolerate-loss", 0}})).value() == OnLost{true, false});
}

TEST_CASE("on-lost: what it cannot be is refused in words") {
  for (const Json& wrong :
       {Json("replace,else=x"), Json("replace,"), Json("restart"), Json(1), Json(true), Json("")}) {
    auto read = OnLost::read(Options(Json{{"on-lost", wrong}}));
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find("on-lost: expected end, go-on, replace") == 0);
  }
  for (const char* other : {"end", "replace", "replace,else=go-on"}) {
    auto both = OnLost::read(Options(Json{{"on-lost", other}, {"tolerate-loss", true}}));
    REQUIRE_FALSE(both);
    CHECK(both.error().message.find("on-lost: tolerate-loss is on-lost=go-on, and contradicts it") == 0);
  }
}
