// SPDX-License-Identifier: Apache-2.0
#include "lua_fixture.hpp"

using nacre::Json;

TEST_CASE("the standard library is there, and is Lua 5.4") {
  LuaFixture lua;
  CHECK(lua.eval("_VERSION") == "Lua 5.4");
  CHECK(lua.eval("string.format ('%03d', 7) .. table.concat ({1, 2}, ',') .. math.type (1)") == "0071,2integer");
}

TEST_CASE("shell.info has the facts of the job") {
  LuaFixture lua(3);
  CHECK(
      lua.eval(
          "string.format ('%d %d %d %d', shell.info.jobid, shell.info.rank, shell.info.size, shell.info.ntasks)") ==
      "1 0 1 3");
  CHECK(lua.eval("shell.info.service") == "fake-shell");
  CHECK(lua.eval("shell.info.options.standalone") == "true");
  CHECK(lua.eval("shell.info.jobspec.tasks[1].command[1]") == "true");
  CHECK(lua.eval("shell.info.R.execution.R_lite[1].children.core") == "0-2");
  CHECK(lua.eval("shell.info == shell.info") == "true");
  CHECK(lua.run("shell.info = 1") == "rc.lua:1: shell.info is read-only");
}

TEST_CASE("the job id is text, in decimal") {
  LuaFixture lua;
  CHECK(lua.eval("type (shell.info.jobid)") == "string");
  LuaFixture large;
  large.host.mutable_job().id = nacre::value::JobId(18446744073709551615ULL);
  CHECK(large.eval("shell.info.jobid") == "18446744073709551615");
}

TEST_CASE("rank info names cores and gpus in both ways") {
  const char* jobspec = R"({"version":1,"resources":[{"type":"slot","count":2,"label":"task",
    "with":[{"type":"core","count":1}]}],"tasks":[{"command":["a"],"slot":"task","count":{"per_slot":1}}],
    "attributes":{"system":{"duration":0}}})";
  const char* resources = R"({"version":1,"execution":{"R_lite":[{"rank":"3","children":{"core":"0-1","gpu":"0"}},
    {"rank":"7","children":{"core":"4"}}],"nodelist":["n3","n7"],"starttime":0,"expiration":0}})";
  LuaFixture lua(jobspec, resources, 1);
  CHECK(lua.eval("shell.rankinfo.name .. ' ' .. shell.rankinfo.id .. ' ' .. shell.rankinfo.broker_rank") ==
        "n7 1 7");
  CHECK(lua.eval("shell.get_rankinfo (0).resources.cores") == "0-1");
  CHECK(lua.eval("shell.get_rankinfo (0).resources.core") == "0-1");
  CHECK(lua.eval("shell.get_rankinfo (0).resources.ncores") == "2");
  CHECK(lua.eval("shell.get_rankinfo (0).resources.gpus") == "0");
  CHECK(lua.eval("shell.get_rankinfo (0).resources.gpu") == "0");
  CHECK(lua.eval("shell.get_rankinfo ().name") == "n7");
  CHECK(lua.eval("shell.rankinfo.resources.gpus") == "nil");  // "" would be true in Lua
  CHECK(lua.run("shell.get_rankinfo (2)") ==
        "rc.lua:1: shell.get_rankinfo: argument 1 (shell_rank): expected 0 to 1, got 2");
  CHECK(lua.run("shell.get_rankinfo (-1)") ==
        "rc.lua:1: shell.get_rankinfo: argument 1 (shell_rank): expected 0 to 1, got -1");
  CHECK(lua.run("shell.get_rankinfo ('x')") ==
        "rc.lua:1: shell.get_rankinfo: argument 1 (shell_rank): expected an integer, got a string");
}

TEST_CASE("the job's environment is read and changed") {
  LuaFixture lua;
  lua.host.environment().set("PATH", "/bin");
  CHECK(lua.eval("shell.getenv ('PATH')") == "/bin");
  CHECK(lua.eval("shell.getenv ('NOPE')") == "nil");
  CHECK(lua.run("shell.setenv ('N', 4) shell.setenv ('PATH', '/no', false) shell.setenv ('PATH', '/no', 0)") ==
        "ok");
  CHECK(lua.env("N") == "4");
  CHECK(lua.env("PATH") == "/bin");
  CHECK(lua.run("shell.setenv ('PATH', '/a', 1) shell.setenv ('NEW', 'x', false)") == "ok");
  CHECK(lua.env("PATH") == "/a");
  CHECK(lua.env("NEW") == "x");
  CHECK(lua.run("shell.unsetenv ('PATH') shell.unsetenv ('NOPE')") == "ok");
  CHECK(lua.run("assert (shell.setenv ('NEW', 'x') == true and shell.unsetenv ('NEW') == true)") == "ok");
  CHECK(lua.env("PATH") == "(unset)");
  CHECK(lua.run("shell.prepend_path ('LIST', '/b') shell.prepend_path ('LIST', '/a')") == "ok");
  CHECK(lua.env("LIST") == "/a:/b");
}

TEST_CASE("getenv without arguments copies the whole environment") {
  LuaFixture lua;
  lua.host.environment().set("A", "1");
  lua.host.environment().set("B", "");
  CHECK(lua.run("local env = shell.getenv () assert (env.A == '1' and env.B == '') env.A = '2'") == "ok");
  CHECK(lua.env("A") == "1");
}

TEST_CASE("errors in arguments name the function, the argument and the line") {
  LuaFixture lua;
  CHECK(lua.run("\nshell.setenv ({}, 'x')") ==
        "rc.lua:2: shell.setenv: argument 1 (name): expected a string, got a table");
  CHECK(lua.run("shell.setenv ('A')") ==
        "rc.lua:1: shell.setenv: argument 2 (value): expected a string, got no value");
  CHECK(lua.run("shell.getenv (nil)") == "rc.lua:1: shell.getenv: argument 1 (name): expected a string, got nil");
  CHECK(lua.run("shell.unsetenv (print)") ==
        "rc.lua:1: shell.unsetenv: argument 1 (name): expected a string, got a function");
  CHECK(lua.run("shell.setenv ('A=B', 'x')").find("rc.lua:1: shell.setenv: ") == 0);
  CHECK(lua.run("shell.setenv ('A', 'x\\0y')").find("rc.lua:1: shell.setenv: ") == 0);
  CHECK(lua.run("shell.prepend_path ('A', '')") == "rc.lua:1: shell.prepend_path: argument 2 (path): is empty");
  CHECK(lua.run("shell.log ({})") == "rc.lua:1: shell.log: argument 1 (message): expected a string, got a table");
  CHECK(lua.env("A") == "(unset)");
}

TEST_CASE("messages go to the log by level") {
  LuaFixture lua;
  CHECK(lua.run("shell.log ('one') shell.debug ('two') shell.log_error (3) shell.log ('a\\nb\\n')") == "ok");
  CHECK(lua.host.logged == std::vector<std::string>{"notice initrc: one", "debug initrc: two", "error initrc: 3",
                                                    "notice initrc: a", "notice initrc: b"});
}

TEST_CASE("the log knows the line of the script") {
  LuaFixture lua;
  nacre::LogEntry last;
  lua.host.log().add_sink("last", [&last](const nacre::LogEntry& entry) { last = entry; });
  std::string path = lua.write("rc.lua", "\n\nshell.log ('x')");
  CHECK(lua.interpreter->run_file(path).has_value());
  CHECK(last.file == path);
  CHECK(last.line == 3);
}

TEST_CASE("shell.verbose is the level of the log") {
  LuaFixture lua;
  lua.host.log().set_level(nacre::Level::notice);
  CHECK(lua.eval("shell.verbose") == "false");
  CHECK(lua.run("shell.verbose = 1") == "ok");
  CHECK(lua.host.log().level() == nacre::Level::debug);
  CHECK(lua.run("shell.verbose = 'loud'").find("rc.lua:1: shell.verbose: expected") == 0);
}

TEST_CASE("die ends the job once and stops the chunk") {
  LuaFixture lua;
  auto ran = lua.interpreter->run_file(lua.write("rc.lua", "shell.die ('no licence')\nshell.setenv ('AFTER', 1)"));
  REQUIRE_FALSE(ran.has_value());
  CHECK(ran.error().is_logged);
  CHECK(ran.error().message == "no licence");
  CHECK(lua.host.deaths == std::vector<std::string>{"1 initrc: no licence"});
  CHECK(lua.host.logged.empty());
  CHECK(lua.env("AFTER") == "(unset)");
}

TEST_CASE("die in a sourced file stops the sourcing file too") {
  LuaFixture lua;
  std::string inner = lua.write("inner.lua", "shell.die ('deep')");
  auto ran = lua.interpreter->run_file(lua.write("rc.lua", "source ('" + inner + "') shell.setenv ('AFTER', 1)"));
  REQUIRE_FALSE(ran.has_value());
  CHECK(ran.error().is_logged);
  CHECK(lua.host.deaths.size() == 1);
  CHECK(lua.env("AFTER") == "(unset)");
}

TEST_CASE("members may be added to the tables, but computed ones not replaced") {
  LuaFixture lua;
  CHECK(lua.run("function shell.hello () return 'hi' end plugin.extra = 1 task.extra = 2") == "ok");
  CHECK(lua.eval("shell.hello () .. plugin.extra .. task.extra") == "hi12");
  for (const char* name : {"rankinfo", "options", "rcpath", "null"}) {
    CHECK(lua.run(std::string("shell.") + name + " = 1") ==
          std::string("rc.lua:1: shell.") + name + " is read-only");
  }
  for (const char* name : {"shell.log", "shell.source_rcpath", "task.getenv", "plugin.register"}) {
    CHECK(lua.run(std::string(name) + " = print") == std::string("rc.lua:1: ") + name + " is read-only");
    CHECK(lua.eval(std::string("type (") + name + ")") == "function");
  }
  CHECK(lua.eval("shell.nothing") == "nil");
  CHECK(lua.run("shell[nil] = 1") == "rc.lua:1: a name must be a string, got nil");
  CHECK(lua.run("plugin[0 / 0] = 1") == "rc.lua:1: a name must be a string, got a number");
  CHECK(lua.run("task[{}] = 1") == "rc.lua:1: a name must be a string, got a table");
}

TEST_CASE("shell.env_strip unsets what matches a pattern, and nothing if a pattern is malformed") {
  LuaFixture lua;
  for (const char* name : {"FOO_A", "FOO_B", "BAR", "A_FOO_", "KEEP"}) lua.host.environment().set(name, "FOO_");
  CHECK(lua.run("shell.env_strip ('^BAR', '[')") ==
        "rc.lua:1: shell.env_strip: argument 2 (pattern): malformed pattern (missing ']')");
  CHECK(lua.env("BAR") == "FOO_");
  CHECK(lua.run("shell.env_strip ('^FOO_', '^BAR$', '^NOPE')") == "ok");
  CHECK(lua.env("FOO_A") == "(unset)");
  CHECK(lua.env("FOO_B") == "(unset)");
  CHECK(lua.env("BAR") == "(unset)");
  CHECK(lua.env("A_FOO_") == "FOO_");
  CHECK(lua.env("KEEP") == "FOO_");
  CHECK(lua.run("shell.env_strip ()") ==
        "rc.lua:1: shell.env_strip: argument 1 (pattern): expected a string, got no value");
  CHECK(lua.run("shell.env_strip ({})") ==
        "rc.lua:1: shell.env_strip: argument 1 (pattern): expected a string, got a table");
}

namespace {

const std::string kMon = R"(coprocess.define {
  name = "mon",
  command = { "vmstat", "5" },
  output = "mon-{{id}}.log",
})";

struct Coprocesses : LuaFixture {
  // The option `coprocess` after `text`, or the error.
  std::string define(const std::string& text = kMon) {
    std::string ran = run(text);
    if (ran != "ok") return ran;
    const Json* option = host.options().find("coprocess");
    return option != nullptr ? option->dump() : "none";
  }
};

}  // namespace

TEST_CASE_METHOD(Coprocesses, "a coprocess that is defined is nothing unless the job names it") {
  CHECK(define() == "none");
  for (const char* off : {"0", "false", "null", "\"0\""}) {
    host.options().set("mon", Json::parse(off));
    CHECK(define() == "none");
  }
}

TEST_CASE_METHOD(Coprocesses, "the bare option has it run as it is defined") {
  for (const char* on : {"1", "true", "{}"}) {
    LuaFixture other;
    other.host.options().set("mon", Json::parse(on));
    CHECK(other.run(kMon) == "ok");
    CHECK(other.host.options().json().at("coprocess") ==
          Json::parse(R"({"mon": {"command": ["vmstat", "5"], "output": "mon-{{id}}.log"}})"));
  }
}

TEST_CASE_METHOD(Coprocesses, "the keys of a dotted option replace those of the definition") {
  REQUIRE(host.options().set_from_argument("mon.output=override.log"));
  REQUIRE(host.options().set_from_argument("mon.ranks=0"));
  CHECK(define() == R"({"mon":{"command":["vmstat","5"],"output":"override.log","ranks":0}})");
}

TEST_CASE_METHOD(Coprocesses, "definitions are merged into the option, in which the job has the last word") {
  host.options().set("coprocess", Json::parse(R"({"own": {"command": ["a"]}, "mon": {"output": "mine"}})"));
  host.options().set("mon", 1);
  CHECK(define() == R"({"mon":{"command":["vmstat","5"],"output":"mine"},"own":{"command":["a"]}})");
}

TEST_CASE_METHOD(Coprocesses, "several coprocesses can be defined") {
  host.options().set("a", 1);
  host.options().set("b", 1);
  CHECK(define("coprocess.define { name = 'a', command = 'x' }\ncoprocess.define { name = 'b', command = 'y' }") ==
        R"({"a":{"command":"x"},"b":{"command":"y"}})");
}

TEST_CASE_METHOD(Coprocesses,
                 "a definition that cannot be meant is an error at its line, even if it is not named") {
  const std::string start = "rc.lua:1: coprocess.define: ";
  CHECK(define("coprocess.define 'mon'") == start + "argument 1 (spec): expected a table, got a string");
  CHECK(define("coprocess.define ()") == start + "argument 1 (spec): expected a table, got no value");
  CHECK(define("coprocess.define { command = {'true'} }") == start + "spec: missing key 'name'");
  CHECK(define("coprocess.define { name = 5, command = {'true'} }") ==
        start + "spec.name: expected a string, got 5");
  CHECK(define("coprocess.define { name = 'a/b', command = {'true'} }") ==
        start + "spec.name: expected a name of letters, digits, '-' and '_', got 'a/b'");
  CHECK(define("coprocess.define { name = 'mon' }") == start + "spec: missing key 'command'");
  CHECK(define("coprocess.define { name = 'mon', command = {} }").starts_with(start + "spec.command: expected a"));
  CHECK(define("coprocess.define { name = 'mon', comand = {'a'} }") ==
        start + "spec.comand: unknown key; known: command, output, ranks");
  CHECK(define("coprocess.define { name = 'mon', command = print }").starts_with(start + "spec.command"));
  CHECK(define("coprocess.define { 'mon' }").starts_with(start + "spec: expected an object"));
}

TEST_CASE_METHOD(Coprocesses, "an option that cannot be meant for a definition names itself and the definition") {
  const std::string start = "rc.lua:1: coprocess.define: ";
  host.options().set("mon", "yes");
  CHECK(define() ==
        start + "mon: expected true or false, or keys of the coprocess such as mon.output, got \"yes\"");
  host.options().set("mon", Json::parse(R"({"ouput": "x"})"));
  CHECK(define() == start + "mon.ouput: unknown key; known: command, output, ranks");
}

TEST_CASE_METHOD(Coprocesses, "an option coprocess that is no object of objects is not lost in silence") {
  const std::string start = "rc.lua:1: coprocess.define: ";
  host.options().set("mon", 1);
  host.options().set("coprocess", 1);
  CHECK(define() == start + "coprocess: expected an object, got 1");
  host.options().unset("coprocess");
  LuaFixture other;
  other.host.options().set("mon", 1);
  other.host.options().set("coprocess.mon", 1);
  CHECK(other.run(kMon) == start + "coprocess.mon: expected an object, got 1");
}

TEST_CASE_METHOD(Coprocesses, "a name that a job uses may be defined once only") {
  const std::string twice = kMon + "\n" + kMon;
  CHECK(define(twice) == "none");
  host.options().set("mon", 1);
  CHECK(define(twice) == "rc.lua:6: coprocess.define: 'mon' is defined already, at rc.lua:1");
}
