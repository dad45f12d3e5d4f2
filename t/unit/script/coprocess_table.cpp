// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "lua_fixture.hpp"

using nacre::Json;

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
