// SPDX-License-Identifier: Apache-2.0
#include "value/resizing.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using value::GrowOrder;

namespace {

Result<GrowOrder> parse(const char* text) {
  Json json = Json::parse(text);
  return GrowOrder::parse(JsonAt::root(json));
}

}  // namespace

TEST_CASE("an order to grow names hosts or a count") {
  GrowOrder hosts = parse(R"({"hosts": "n[4-5],n4", "wait": 2.5, "all": true})").value();
  CHECK(hosts.hosts.str() == "n[4-5,4]");
  CHECK(hosts.wait == 2.5);
  CHECK(hosts.all);
  GrowOrder count = parse(R"({"count": 3, "later": 1})").value();
  CHECK(count.count == 3);
  CHECK_FALSE(count.wait);
  CHECK_FALSE(count.all);
}

TEST_CASE("an order to grow that cannot be carried out is refused") {
  for (const char* text :
       {"{}", R"({"hosts": "a", "count": 1})", R"({"hosts": ""})", R"({"hosts": "a["})", R"({"hosts": 1})",
        R"({"count": 0})", R"({"count": 4097})", R"({"hosts": "n[1-4097]"})", R"({"count": 1, "wait": 0})",
        R"({"count": 1, "wait": 86401})", R"({"count": 1, "all": "yes"})", "[]"}) {
    CAPTURE(text);
    CHECK_FALSE(parse(text));
  }
}
