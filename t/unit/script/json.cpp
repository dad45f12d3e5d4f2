// SPDX-License-Identifier: Apache-2.0
#include "script/json.hpp"

#include "catch.hpp"

#include "lua_fixture.hpp"

using nacre::Json;

namespace {

// Passes a value through Lua, by the in and out arguments of a call.
struct Echo : LuaFixture {
  Echo() {
    run("plugin.register {name = 'echo', handlers = {{topic = 'echo', fn = function (topic, args)"
        " return {value = args.value} end}, {topic = 'make', fn = function () return {value = made ()} end}}}");
  }
  std::string echo(std::string_view text) {
    nacre::plugin::Call call("echo");
    call.in["value"] = nacre::parse_json(text).value();
    return finish(call);
  }
  // The JSON of a Lua expression.
  std::string make(const std::string& expression) {
    std::string defined = run("function made () return " + expression + " end");
    if (defined != "ok") return defined;
    nacre::plugin::Call call("make");
    return finish(call);
  }
  std::string finish(nacre::plugin::Call& call) {
    auto called = host.stack().call(call);
    if (called) return call.out.contains("value") ? call.out["value"].dump() : "absent";
    std::string message = shorten(called.error().message);
    return message.substr(message.find("result"));
  }
};

}  // namespace

TEST_CASE_METHOD(Echo, "JSON comes back as it was") {
  for (const char* text :
       {"1", "-9223372036854775808", "9223372036854775807", "1.5", "2.0", "true", "false", "\"\"", "\"a\\u0000b\"",
        "[]", "{}", "[[]]", "[{}]", "[1,\"a\",[2,{\"k\":[]}]]", "{\"a\":{\"b\":[1,2.5,false]}}", "[null]",
        "[1,null]", "[null,null,2]", "{\"\":1,\"1\":2}"}) {
    CHECK(echo(text) == text);
  }
}

TEST_CASE_METHOD(Echo, "null leaves an object, and stays in an array as shell.null") {
  CHECK(echo("null") == "absent");
  CHECK(echo("{\"a\":null,\"b\":1}") == "{\"b\":1}");
  CHECK(make("{shell.null, 1}") == "[null,1]");
  CHECK(make("shell.null") == "null");
  CHECK(make("{a = shell.null}") == "{\"a\":null}");
}

TEST_CASE_METHOD(Echo, "an integer too large for Lua becomes a float") {
  CHECK(echo("18446744073709551615") == "1.8446744073709552e+19");
}

TEST_CASE_METHOD(Echo, "tables are arrays or objects by their keys") {
  CHECK(make("{}") == "{}");
  CHECK(make("{'a', 'b'}") == "[\"a\",\"b\"]");
  CHECK(make("{[2] = 'b', [1] = 'a'}") == "[\"a\",\"b\"]");
  CHECK(make("{[1.0] = 'a'}") == "[\"a\"]");
  CHECK(make("{x = {y = 'z'}}") == "{\"x\":{\"y\":\"z\"}}");
  CHECK(make("{1, x = 2}") == "result.value: a table has both string keys and elements 1..n");
  CHECK(make("{1, nil, 3}") == "result.value: an array has holes: 2 elements, the last at index 3");
  CHECK(make("{[0] = 1}") == "result.value: a key must be a string or 1..n, got 0");
  CHECK(make("{[1.5] = 1}") == "result.value: a key must be a string or 1..n, got 1.5");
  CHECK(make("{[true] = 1}") == "result.value: a key must be a string or 1..n, got a boolean");
}

TEST_CASE_METHOD(Echo, "what JSON cannot say is refused") {
  CHECK(make("0 / 0").find("nan has no form in JSON") != std::string::npos);
  CHECK(make("{a = {-1 / 0}}") == "result.value.a[1]: the number -inf has no form in JSON");
  CHECK(make("print") == "result.value: a function has no form in JSON");
  CHECK(make("{coroutine.create (print)}") == "result.value[1]: a thread has no form in JSON");
  CHECK(make("io.stdout") == "result.value: userdata has no form in JSON");
}

TEST_CASE_METHOD(Echo, "nesting is bounded both ways") {
  CHECK(make("(function () local t = {} t.t = t return t end) ()")
            .find("nested deeper than 128 levels (does a table contain itself?)") != std::string::npos);
  // The value stands one level deep, in the results.
  std::string nest = "(function () local t = 1 for i = 1, ";
  CHECK(make(nest + "127 do t = {t} end return t end) ()") == std::string(127, '[') + "1" + std::string(127, ']'));
  CHECK(make(nest + "128 do t = {t} end return t end) ()").find("nested deeper than 128 levels") !=
        std::string::npos);

  nacre::plugin::Call call("echo");
  Json deep = 1;
  for (int i = 0; i < 256; ++i) deep = Json::array({std::move(deep)});
  call.in["value"] = std::move(deep);
  auto called = host.stack().call(call);
  REQUIRE_FALSE(called.has_value());
  CHECK(called.error().message == "plugin 'echo': echo: in arguments: nested deeper than 256 levels");
}

TEST_CASE_METHOD(Echo, "the number of values is bounded", "[long]") {
  // t is 1; each level holds the one below twice: few tables, but 2^30 values.
  CHECK(make("(function () local t = 1 for i = 1, 30 do t = {t, t} end return t end) ()")
            .find("more than 1048576 values") != std::string::npos);
}
