// SPDX-License-Identifier: Apache-2.0
#include "capi/jansson.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

TEST_CASE("JSON goes to jansson and back unchanged") {
  for (const char* text :
       {R"({})", R"([])", R"({"a":[1,-2,3.5,"x",true,false,null],"b":{"c":{}}})", R"("ƒ\u0000end")", "0",
        "9223372036854775807", "-9223372036854775808", "1e308", R"({"k\u0000ey":1})"}) {
    Json value = *parse_json(text);
    CHECK(from_jansson(to_jansson(value).get()) == value);
  }
}

TEST_CASE("what jansson cannot hold is made to fit") {
  JsonRef large = to_jansson(std::uint64_t{18446744073709551615U});
  CHECK(static_cast<std::uint64_t>(json_integer_value(large.get())) == 18446744073709551615U);
  CHECK(from_jansson(to_jansson(Json(std::nan(""))).get()).is_null());
  CHECK(from_jansson(to_jansson(Json("a\xff"
                                     "b"))
                         .get()) == Json("a\xEF\xBF\xBD"
                                         "b"));
}

TEST_CASE("a kept value is one object while it is the same") {
  KeptJson kept;
  json_t* first = kept.get("a", Json{{"x", "text"}});
  const char* text = json_string_value(json_object_get(first, "x"));
  CHECK(kept.get("a", Json{{"x", "text"}}) == first);
  CHECK(kept.get("b", Json{{"x", "text"}}) != first);
  CHECK(kept.get("a", Json{{"x", "other"}}) != first);
  CHECK(std::string_view(text) == "text");  // the older one is still there
}
