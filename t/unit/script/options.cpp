// SPDX-License-Identifier: Apache-2.0
#include "lua_fixture.hpp"
#include "script/json.hpp"

using nacre::Json;

namespace {

struct WithOptions : LuaFixture {
  WithOptions() {
    host.options() = nacre::job::Options(nacre::parse_json(R"({
      "cpu-affinity": "per-task", "n": 3, "x": 1.5, "on": true, "none": null,
      "output": {"stdout": {"type": "file", "path": "out"}},
      "list": ["a", "b"], "empty": [], "wrap": [{"ranks": "0"}, {"ranks": "1"}]})")
                                             .value());
  }
  nacre::Json json(std::string_view path) {
    const nacre::Json* value = host.options().find(path);
    return value != nullptr ? *value : nacre::Json("unset");
  }
};

}  // namespace

TEST_CASE_METHOD(WithOptions, "options are read with their types, at any depth") {
  CHECK(eval("shell.options['cpu-affinity']") == "per-task");
  CHECK(eval("math.type (shell.options.n) .. shell.options.n") == "integer3");
  CHECK(eval("shell.options.x") == "1.5");
  CHECK(eval("shell.options.on") == "true");
  CHECK(eval("shell.options.output.stdout.type") == "file");
  CHECK(eval("shell.options['output.stdout.path']") == "out");
  CHECK(eval("shell.options.wrap[2].ranks") == "1");
}

TEST_CASE_METHOD(WithOptions, "what is not set is nil") {
  CHECK(eval("shell.options.nope") == "nil");
  CHECK(eval("shell.options.none") == "nil");
  CHECK(eval("shell.options.output.stderr") == "nil");
  CHECK(eval("shell.options.list[3]") == "nil");
  CHECK(eval("shell.options.list[0]") == "nil");
  CHECK(eval("shell.options.list.name") == "nil");
  CHECK(eval("shell.options[1]") == "nil");
  CHECK(run("local a = shell.options.nope.deeper").find("rc.lua:1: attempt to index a nil value (field 'nope')") ==
        0);
}

TEST_CASE_METHOD(WithOptions, "assignments write through, at any depth") {
  CHECK(run("shell.options.new = 'v' shell.options.output.stdout.type = 'kvs' shell.options.output.stderr = {type "
            "= 'term'}"
            " shell.options['a.b'] = 1 shell.options.wrap[1].ranks = '2-3' shell.options.list[2] = 'B'") == "ok");
  CHECK(json("new") == "v");
  CHECK(json("output") ==
        nacre::parse_json(R"({"stdout":{"type":"kvs","path":"out"},"stderr":{"type":"term"}})").value());
  CHECK(json("a") == nacre::parse_json(R"({"b":1})").value());
  CHECK(json("wrap") == nacre::parse_json(R"([{"ranks":"2-3"},{"ranks":"1"}])").value());
  CHECK(json("list") == nacre::parse_json(R"(["a","B"])").value());
}

TEST_CASE_METHOD(WithOptions, "assigning nil unsets") {
  CHECK(run("shell.options.n = nil shell.options.output.stdout.path = nil shell.options.nope = nil") == "ok");
  CHECK(json("n") == "unset");
  CHECK(json("output") == nacre::parse_json(R"({"stdout":{"type":"file"}})").value());
}

TEST_CASE_METHOD(WithOptions, "a table kept is live: it sees what others set") {
  CHECK(run("kept = shell.options.output") == "ok");
  host.options().set("output.stdout.type", "term");
  CHECK(eval("kept.stdout.type") == "term");
  host.options().unset("output");
  CHECK(eval("kept.stdout") == "nil");
  CHECK(run("kept.stdout = 1") == "rc.lua:1: shell.options.output is no longer set");
}

TEST_CASE_METHOD(WithOptions, "arrays grow and shrink at their end only") {
  CHECK(run("table.insert (shell.options.list, 'c') assert (#shell.options.list == 3)") == "ok");
  CHECK(run("shell.options.empty[1] = {k = 1}") == "ok");
  CHECK(json("list") == nacre::parse_json(R"(["a","b","c"])").value());
  CHECK(json("empty") == nacre::parse_json(R"([{"k":1}])").value());
  CHECK(run("assert (table.remove (shell.options.list) == 'c')") == "ok");
  CHECK(json("list") == nacre::parse_json(R"(["a","b"])").value());
  CHECK(run("shell.options.list[4] = 'x'") ==
        "rc.lua:1: shell.options.list: cannot set element 4 of an array of 2");
  CHECK(run("shell.options.list[1] = nil") ==
        "rc.lua:1: shell.options.list: cannot remove element 1 of an array of 2");
  CHECK(run("shell.options.list.name = 1") ==
        "rc.lua:1: shell.options.list is array: a string cannot be a key in it");
  CHECK(run("shell.options.output[1] = 1") ==
        "rc.lua:1: shell.options.output is object: a number cannot be a key in it");
}

TEST_CASE_METHOD(WithOptions, "options can be walked") {
  CHECK(run("local t = {} for k in pairs (shell.options) do t[#t + 1] = k end table.sort (t)"
            " shell.setenv ('RESULT', table.concat (t, ' '))") == "ok");
  CHECK(env("RESULT") == "cpu-affinity empty list n on output wrap x");
  CHECK(run("local s = '' for i, v in ipairs (shell.options.list) do s = s .. i .. v end shell.setenv ('RESULT', "
            "s)") == "ok");
  CHECK(env("RESULT") == "1a2b");
  CHECK(eval("table.concat (shell.options.list, '+')") == "a+b");
  CHECK(eval("shell.options.output") == R"({"stdout":{"path":"out","type":"file"}})");
  CHECK(eval("type (shell.options.output)") == "table");
}

TEST_CASE_METHOD(WithOptions, "a part of the options can be assigned elsewhere, as a copy") {
  CHECK(run("shell.options.copy = shell.options.output shell.options.output.stdout.type = 'x'") == "ok");
  CHECK(json("copy") == nacre::parse_json(R"({"stdout":{"type":"file","path":"out"}})").value());
}

TEST_CASE_METHOD(WithOptions, "values without a form in JSON are refused with their place") {
  CHECK(run("shell.options.f = print") == "rc.lua:1: shell.options.f: a function has no form in JSON");
  CHECK(run("shell.options.output.f = {a = {print}}") ==
        "rc.lua:1: shell.options.output.f.a[1]: a function has no form in JSON");
  CHECK(run("shell.options[true] = 1") == "rc.lua:1: shell.options: a name must be a string, got a boolean");
  CHECK(run("shell.options.copy = 1 / 0") == "rc.lua:1: shell.options.copy: the number inf has no form in JSON");
}

TEST_CASE_METHOD(WithOptions, "verbose is the level of the log, standalone a fact") {
  host.log().set_level(nacre::Level::notice);
  CHECK(eval("shell.options.verbose") == "0");
  CHECK(run("shell.options.verbose = 2") == "ok");
  CHECK(host.log().level() == nacre::Level::trace);
  CHECK(json("verbose") == 2);
  CHECK(run("shell.options.verbose = 99") == "ok");
  CHECK(host.log().level() == nacre::Level::trace);
  CHECK(run("shell.options.verbose = false") == "ok");
  CHECK(host.log().level() == nacre::Level::notice);
  CHECK(run("shell.options.verbose = 'very'").find("rc.lua:1: shell.options.verbose: expected") == 0);
  CHECK(run("shell.options.verbose = -1").find("rc.lua:1: shell.options.verbose: expected") == 0);
  CHECK(eval("shell.options.standalone") == "true");
  CHECK(run("shell.options.standalone = false") == "rc.lua:1: shell.options.standalone is read-only");
}

TEST_CASE_METHOD(WithOptions, "an option with a version comes in two parts") {
  host.options().set("mpi", "openmpi@5");
  CHECK(eval("select ('#', shell.getopt_with_version ('mpi'))") == "2");
  CHECK(eval("table.concat ({shell.getopt_with_version ('mpi')}, '|')") == "openmpi|5");
  CHECK(eval("table.concat ({shell.getopt_with_version ('cpu-affinity')}, '|')") == "per-task");
  CHECK(eval("shell.getopt_with_version ('n')") == "3");
  CHECK(eval("shell.getopt_with_version ('nope')") == "nil");
}

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
