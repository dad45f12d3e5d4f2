// SPDX-License-Identifier: Apache-2.0
#include "lua_fixture.hpp"

namespace {

constexpr const char* kForever = "while true do end";

struct Limited : LuaFixture {
  explicit Limited(nacre::Json limit = "20ms") { host.options().set("lua-timeout", std::move(limit)); }

  // Runs `text` as rc.lua, which must be stopped; returns the reason, as the user sees it.
  std::string stopped(std::string_view text) {
    std::size_t before = host.deaths.size();
    auto ran = interpreter->run_file(write("rc.lua", text));
    if (ran || !ran.error().is_logged || host.deaths.size() != before + 1) return "not stopped";
    return shorten(host.deaths.back());
  }
  std::string handler(const std::string& topic, const std::string& body) {
    std::string text =
        "plugin.register {name = 'p', handlers = {{topic = '" + topic + "', fn = function ()\n" + body;
    return run(text + "\nend}}}");
  }
};

}  // namespace

TEST_CASE_METHOD(Limited, "an endless loop in an initrc is named, and ends the job") {
  CHECK(stopped("\nwhile true do end") ==
        "1 initrc: rc.lua:2: this file takes longer than 20ms (shell option lua-timeout)");
  write("inner.lua", "\n\nwhile true do end");
  CHECK(stopped("source (shell.rcpath .. '/inner.lua') shell.setenv ('AFTER', 1)") ==
        "1 initrc: inner.lua:3: this file takes longer than 20ms (shell option lua-timeout)");
  CHECK(env("AFTER") == "(unset)");
}

TEST_CASE_METHOD(Limited, "an endless loop in a handler is named with its plugin and topic") {
  host.make_tasks();
  for (const char* topic : {"shell.init", "task.exit"}) {
    REQUIRE(handler(topic, kForever) == "ok");
    auto called = topic[0] == 't' ? host.call_task(topic, 0) : host.call(topic);
    REQUIRE_FALSE(called);
    CHECK(called.error().is_logged);
    CHECK(shorten(host.deaths.back()) ==
          std::string("1 p: rc.lua:2: ") + topic + " takes longer than 20ms (shell option lua-timeout)");
  }
  CHECK(host.deaths.size() == 2);
}

TEST_CASE_METHOD(Limited, "the next call has its time anew") {
  CHECK(stopped(kForever) != "not stopped");
  host.options().set("lua-timeout", "1h");
  CHECK(run("for i = 1, 10000 do end shell.setenv ('AFTER', 1)") == "ok");
  CHECK(env("AFTER") == "1");
  CHECK(host.deaths.size() == 1);
}

TEST_CASE_METHOD(Limited, "nothing that catches errors gets past it") {
  for (const char* text : {
           "while true do pcall (function () while true do end end) end",
           "while true do pcall (pcall, function () while true do end end) end",
           "while true do pcall (error, 'x') end",
           "while true do xpcall (function () while true do end end, function () while true do end end) end",
           "return pcall (function () while true do end end)",
           "while true do pcall (load, function () while true do end end) end",
           "while true do pcall (table.sort, {3, 2, 1}, function () while true do end end) end",
           "local t = setmetatable ({}, {__index = function () while true do end end}) while true do pcall "
           "(function () "
           "return t.x end) end",
           "while true do local x <close> = setmetatable ({}, {__close = function () while true do end end}) end",
       }) {
    CAPTURE(text);
    CHECK(stopped(text).find("1 initrc: rc.lua:1: this file takes longer") == 0);
  }
}

TEST_CASE_METHOD(Limited, "coroutines are limited with those that run them") {
  for (const char* text : {
           "coroutine.wrap (function () while true do end end) ()",
           "while true do coroutine.resume (coroutine.create (function () while true do end end)) end",
           "while true do coroutine.wrap (function () coroutine.yield () end) () end",
           "local co = coroutine.wrap (function () while true do coroutine.yield () end end) while true do co () "
           "end",
           "while true do pcall (coroutine.wrap (function () while true do pcall (function () while true do end "
           "end) end "
           "end)) end",
       }) {
    CAPTURE(text);
    CHECK(stopped(text).find("1 initrc: rc.lua:1: this file takes longer") == 0);
  }
}

TEST_CASE_METHOD(Limited, "a coroutine that outlives its call has the time of the call that resumes it") {
  CHECK(run("co = coroutine.wrap (function () while true do coroutine.yield () while forever do end end end) co "
            "()") == "ok");
  CHECK(stopped("forever = true co ()").find("1 initrc: rc.lua:1:") == 0);
}

TEST_CASE_METHOD(Limited, "what a call calls in turn has what is left of its time") {
  REQUIRE(handler("shell.log", kForever) == "ok");
  host.log().add_sink("stack", [this](const nacre::LogEntry&) { (void)host.call("shell.log"); });
  write("empty.lua", "");
  CHECK(stopped("while true do source (shell.rcpath .. '/empty.lua') end").find("takes longer than 20ms") !=
        std::string::npos);
  CHECK(stopped("shell.log ('x')").find("1 initrc: rc.lua:2: this file takes longer than 20ms") == 0);
}

TEST_CASE("the limit is any time above zero") {
  for (const char* limit : {"0.01", "\"10ms\"", "\"0.01s\""}) {
    Limited lua(nacre::parse_json(limit).value());
    CHECK(lua.stopped(kForever).find("takes longer than 10ms") != std::string::npos);
  }
  for (const char* limit : {"0", "-1", "\"0s\"", "true", "[]"}) {
    CAPTURE(limit);
    Limited lua(nacre::parse_json(limit).value());
    CHECK(lua.run("").find(
              "lua-timeout: expected a time above 0 in seconds, a duration such as \"30s\", or \"none\", "
              "got ") == 0);
  }
  CHECK(Limited("soon").run("").find("lua-timeout: ") == 0);
}

TEST_CASE("without a limit nothing watches the code, and it may take its time") {
  for (const char* limit : {"\"none\"", "\"infinity\""}) {
    Limited lua(nacre::parse_json(limit).value());
    CHECK(lua.eval("debug.gethook ()") == "nil");
    CHECK(lua.run("for i = 1, 3000000 do end") == "ok");
  }
  CHECK(Limited("1h").eval("debug.gethook ()") == "external hook");
}

TEST_CASE(
    "unless it is set an initrc has a minute, and what it sources is part of it; a handler has all the time") {
  CHECK(nacre::script::TimeLimit::kOfFiles == nacre::event::Seconds(60));
  Limited lua(nullptr);
  lua.write("inner.lua", "shell.setenv ('INNER', tostring (debug.gethook ()))");
  CHECK(lua.handler("shell.init", "for i = 1, 3000 do end shell.setenv ('HANDLER', tostring (debug.gethook ()))") ==
        "ok");
  CHECK(lua.run("source (shell.rcpath .. '/inner.lua') shell.setenv ('OUTER', tostring (debug.gethook ()))") ==
        "ok");
  CHECK(lua.env("OUTER") == "external hook");
  CHECK(lua.env("INNER") == "external hook");
  REQUIRE(lua.host.call("shell.init"));
  CHECK(lua.env("HANDLER") == "nil");
}

TEST_CASE("an initrc may set the limit, for itself and for what is called later") {
  Limited lua(nullptr);
  CHECK(lua.stopped("shell.options['lua-timeout'] = '10ms'\nwhile true do end") ==
        "1 initrc: rc.lua:2: this file takes longer than 10ms (shell option lua-timeout)");
  CHECK(lua.run("coroutine.wrap (function () shell.options['lua-timeout'] = 'none' end) ()") == "ok");
  CHECK(lua.eval("debug.gethook ()") == "nil");
  CHECK(lua.stopped("coroutine.wrap (function () shell.options['lua-timeout'] = '10ms' while true do end end) ()")
            .find("takes longer than 10ms") != std::string::npos);
  CHECK(lua.run("shell.options['lua-timeout'] = 'x'").find("rc.lua:1: lua-timeout: ") == 0);
  CHECK(lua.run("shell.options['lua-timeout'] = nil").find("lua-timeout: ") == 0);
}

TEST_CASE("an option that a plugin sets while the initrc runs holds for handlers") {
  Limited lua(nullptr);
  lua.host.log().add_sink("plugin",
                          [&lua](const nacre::LogEntry&) { lua.host.options().set("lua-timeout", "10ms"); });
  CHECK(lua.handler("shell.init", kForever) == "ok");
  CHECK(lua.run("shell.log ('x')") == "ok");
  CHECK_FALSE(lua.host.call("shell.init"));
  CHECK(lua.host.deaths.size() == 1);
}

TEST_CASE("xpcall is as it was, but for what ends the Lua code") {
  LuaFixture lua;
  CHECK(lua.eval("select (2, xpcall (error, function (e) return e .. '!' end, 'x', 0))") == "x!");
  CHECK(lua.eval("table.concat ({select (2, xpcall (function (...) return ... end, print, 1, 2))}, ',')") == "1,2");
  CHECK(
      lua.eval("coroutine.wrap (function () return xpcall (function () return coroutine.yield (1) end, print) end) "
               "()") == "1");
  CHECK(lua.run("xpcall (print, 1)").find("rc.lua:1: bad argument #2 to 'xpcall' (function expected") == 0);
  auto ran = lua.interpreter->run_file(
      lua.write("rc.lua", "xpcall (shell.die, function () shell.setenv ('ASKED', 1) end, 'x')"));
  CHECK(lua.env("ASKED") == "(unset)");
}
