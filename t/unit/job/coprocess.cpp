// SPDX-License-Identifier: Apache-2.0
#include "job/options.hpp"

#include "catch.hpp"

using namespace nacre;
using job::Coprocess;
using Arguments = std::vector<std::string>;

namespace {

Coprocess read(const char* entry) {
  Json json = Json::parse(entry);
  auto coprocess = Coprocess::read("mon", JsonAt::root(json, "mon"));
  if (!coprocess) FAIL(coprocess.error().message);
  return *coprocess;
}

std::string error_of(const char* entry) {
  Json json = Json::parse(entry);
  auto coprocess = Coprocess::read("mon", JsonAt::root(json, "mon"));
  return coprocess ? "ok" : coprocess.error().message;
}

std::string error_of_option(const char* option) {
  Json json = Json::parse(option);
  auto all = job::read_coprocesses(JsonAt::root(json, "coprocess"));
  return all ? "ok" : all.error().message;
}

}  // namespace

TEST_CASE("a coprocess has a command, a default output, and runs on all shells") {
  Coprocess mon = read(R"({"command": ["vmstat", "5"]})");
  CHECK(mon.name == "mon");
  CHECK(mon.command == Arguments{"vmstat", "5"});
  CHECK(mon.output == "coproc-mon-{{id}}.log");
  CHECK(mon.runs_on(0));
  CHECK(mon.runs_on(4000000000U));
}

TEST_CASE("a command that is text is one for the shell") {
  CHECK(read(R"({"command": "vmstat 5 | tee x"})").command == Arguments{"/bin/sh", "-c", "vmstat 5 | tee x"});
}

TEST_CASE("ranks are an idset, a number, or all") {
  Coprocess some = read(R"({"command": ["a"], "ranks": "0,2-3", "output": "o"})");
  CHECK(some.output == "o");
  CHECK(some.runs_on(0));
  CHECK_FALSE(some.runs_on(1));
  CHECK(some.runs_on(3));
  Coprocess one = read(R"({"command": ["a"], "ranks": 1})");
  CHECK_FALSE(one.runs_on(0));
  CHECK(one.runs_on(1));
  CHECK_FALSE(read(R"({"command": ["a"], "ranks": "all"})").ranks);
}

TEST_CASE("a key that is null is one that is not there") {
  CHECK(read(R"({"command": ["a"], "output": null, "ranks": null})").output == "coproc-mon-{{id}}.log");
}

TEST_CASE("an entry that cannot be meant says where and what was expected") {
  const std::string command =
      "expected a program and its arguments, as an array of strings or as text for the shell";
  CHECK(error_of("1") == "mon: expected an object, got 1");
  CHECK(error_of("{}") == "mon: missing key 'command'");
  CHECK(error_of(R"({"command": ["a"], "rank": "0"})") == "mon.rank: unknown key; known: command, output, ranks");
  CHECK(error_of(R"({"command": []})") == "mon.command: " + command + ", got an array");
  CHECK(error_of(R"({"command": ["", "a"]})") == "mon.command: " + command + ", got an array");
  CHECK(error_of(R"({"command": " "})") == "mon.command: " + command + ", got \" \"");
  CHECK(error_of(R"({"command": 5})") == "mon.command: " + command + ", got 5");
  CHECK(error_of(R"({"command": ["a", 5]})") == "mon.command[1]: expected a string, got 5");
  CHECK(error_of(R"({"command": ["a\u0000b"]})") == "mon.command: contains a NUL byte");
  CHECK(error_of(R"({"command": ["a"], "output": 1})") == "mon.output: expected a string, got 1");
  CHECK(error_of(R"({"command": ["a"], "output": ""})") == "mon.output: is empty; expected the name of a file");
  CHECK(error_of(R"({"command": ["a"], "output": "x\u0000"})") == "mon.output: contains a NUL byte");
  const std::string ranks = "mon.ranks: expected an idset of shell ranks such as \"0-3\", or \"all\", got ";
  CHECK(error_of(R"({"command": ["a"], "ranks": ""})") == ranks + "\"\"");
  CHECK(error_of(R"({"command": ["a"], "ranks": [0]})") == ranks + "an array");
  CHECK(error_of(R"({"command": ["a"], "ranks": "notanidset"})").starts_with("mon.ranks: idset"));
  CHECK(error_of(R"({"command": ["a"], "ranks": -1})").starts_with("mon.ranks: expected an integer from 0"));
  CHECK(
      error_of(R"({"command": ["a"], "ranks": 4294967295})").starts_with("mon.ranks: expected an integer from 0"));
}

TEST_CASE("the option is an object of coprocesses by name") {
  Json option = Json::parse(R"({"b_2": {"command": ["x"]}, "a-1": {"command": ["y"]}})");
  auto all = job::read_coprocesses(JsonAt::root(option, "coprocess"));
  REQUIRE(all);
  REQUIRE(all->size() == 2);
  CHECK(all->at(0).name == "a-1");
  CHECK(all->at(0).command == Arguments{"y"});
  CHECK(all->at(1).name == "b_2");
}

TEST_CASE("an option that cannot be meant says where") {
  const std::string object = "coprocess: expected an object of coprocesses by name that is not empty, got ";
  CHECK(error_of_option("\"nope\"") == object + "\"nope\"");
  CHECK(error_of_option("{}") == object + "an object");
  CHECK(error_of_option(R"({"mon": {"command": []}})").starts_with("coprocess.mon.command: expected a program"));
}

TEST_CASE("a name is of letters, digits, dashes and underscores") {
  CHECK(Coprocess::check_name("vmstat-2_X"));
  for (const char* bad : {"", "a b", "a/b", "a.b", "{{id}}", "é"}) {
    CHECK(Coprocess::check_name(bad).error().message.starts_with(
        "expected a name of letters, digits, '-' and '_', got"));
  }
  CHECK(error_of_option(R"({"a/b": {"command": ["x"]}})") ==
        "coprocess: expected a name of letters, digits, '-' and '_', got 'a/b'");
}
