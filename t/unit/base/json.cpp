// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include "catch.hpp"

using nacre::JsonAt;
using nacre::parse_json;

namespace {
nacre::Json json(const char* text) { return parse_json(text).value(); }
}  // namespace

TEST_CASE("a syntax error names its line and column") {
  CHECK(parse_json("{\n  \"a\": }").error().message.find("not JSON: line 2, column 8:") == 0);
  CHECK(parse_json("").error().message.find("not JSON: line 1, column 1:") == 0);
  CHECK(parse_json("[1,2").error().message.find("not JSON: line 1, column 5:") == 0);
  CHECK(parse_json("[1] x").error().message.find("not JSON: line 1, column 5:") == 0);
}

TEST_CASE("nesting is bounded") {
  std::string deep(static_cast<std::size_t>(nacre::kMaxJsonDepth), '[');
  std::string closed(static_cast<std::size_t>(nacre::kMaxJsonDepth), ']');
  CHECK(parse_json(deep + closed).has_value());
  CHECK(parse_json("[" + deep + closed + "]").error().message == "nested deeper than 128 levels");
  CHECK(parse_json(std::string(1000000, '[')).error().message == "nested deeper than 128 levels");
}

TEST_CASE("a document comes back whole") {
  CHECK(json(R"({"a":[1,2.5,"x",null,true,{"b":{}}]})").dump() == R"({"a":[1,2.5,"x",null,true,{"b":{}}]})");
  CHECK(nacre::dump_json(nacre::Json("a\xff")) == "\"a\xef\xbf\xbd\"");
}

TEST_CASE("errors carry the path") {
  auto document = json(R"({"resources":[{"count":-1}],"n":"x"})");
  auto root = JsonAt::root(document);
  auto count = root.at("resources")->elements()->at(0).at("count");
  CHECK(count->integer(1).error().message == "resources[0].count: expected a positive integer, got -1");
  CHECK(count->integer(0, 7).error().message == "resources[0].count: expected an integer from 0 to 7, got -1");
  CHECK(root.at("zap").error().message == "missing key 'zap'");
  CHECK(root.at("n")->integer().error().message == "n: expected an integer, got \"x\"");
  CHECK(root.at("n")->at("m").error().message == "n: expected an object, got \"x\"");
  CHECK(root.at("resources")->boolean().error().message == "resources: expected true or false, got an array");
  CHECK(root.only_keys({"resources"}).error().message == "n: unknown key; known: resources");
}

TEST_CASE("integers do not wrap") {
  auto document = json("[18446744073709551615, 1.0, 9223372036854775807]");
  auto items = JsonAt::root(document).elements().value();
  CHECK_FALSE(items[0].integer());
  CHECK_FALSE(items[1].integer());
  CHECK(items[2].integer().value() == INT64_MAX);
}

TEST_CASE("a member that is not there is null") {
  auto document = json(R"({"a": {"b": [1]}, "n": null})");
  CHECK(nacre::member_of(document, "a").is_object());
  CHECK(nacre::member_of(document, "x").is_null());
  CHECK(nacre::member_of(document["a"]["b"], "x").is_null());
  CHECK(nacre::find_at(document, nacre::Json::json_pointer("/a/b/0")) == 1);
  CHECK(nacre::find_at(document, nacre::Json::json_pointer("/a/b/1")).is_null());
  CHECK(nacre::find_at(document, nacre::Json::json_pointer("/n/x")).is_null());
}

namespace {

template <typename Value, typename Key>
constexpr bool kHasIndex = requires(Value value, Key key) {
  value[key];
};

}  // namespace

TEST_CASE("a constant value has no operator[] that may abort") {
  static_assert(kHasIndex<nacre::Json&, std::string>);
  static_assert(!kHasIndex<const nacre::Json&, std::string>);
}
