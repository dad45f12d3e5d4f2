// SPDX-License-Identifier: Apache-2.0
#include "job/options.hpp"

#include "catch.hpp"

#include "job/option_table.hpp"

using nacre::Json;
using nacre::job::Options;

namespace {

Options options_of(const char* text) { return Options(Json::parse(text)); }

std::string after_arguments(std::initializer_list<const char*> arguments) {
  Options options;
  for (const char* each : arguments) {
    auto set = options.set_from_argument(each);
    if (!set) return set.error().message;
  }
  return options.json().dump();
}

}  // namespace

TEST_CASE("a dotted path finds a member of a member") {
  auto options = options_of(R"({"a": {"b": {"c": 5}, "n": null}, "x.y": 1})");
  CHECK(*options.find("a.b.c") == 5);
  CHECK(options.find("a.b")->is_object());
  CHECK(options.find("a.n")->is_null());
  CHECK(options.find("a.b.c.d") == nullptr);
  CHECK(options.find("b") == nullptr);
  CHECK(options.find("x.y") == nullptr);
  CHECK(options.find("") == nullptr);
}

TEST_CASE("an option that is read with checks names itself in errors") {
  auto options = options_of(R"({"oom": {"adjust": "x"}})");
  auto option = options.at("oom.adjust");
  REQUIRE(option);
  CHECK(option->path() == "oom.adjust");
  CHECK(option->integer().error().message == "oom.adjust: expected an integer, got \"x\"");
  CHECK_FALSE(options.at("oom.none"));
}

TEST_CASE("setting makes objects on the way, in place of what is none") {
  Options options;
  CHECK(options.json().dump() == "{}");
  options.set("a.b.c", 1);
  CHECK(options.json().dump() == R"({"a":{"b":{"c":1}}})");
  options.set("a.b", 2);
  CHECK(options.json().dump() == R"({"a":{"b":2}})");
  options.set("a.b.c", 3);
  options.set("a.d", "x");
  CHECK(options.json().dump() == R"({"a":{"b":{"c":3},"d":"x"}})");
}

TEST_CASE("unsetting removes one option") {
  auto options = options_of(R"({"a": {"b": 1, "c": 2}, "d": 3})");
  options.unset("a.b");
  options.unset("a.none");
  options.unset("none.b");
  options.unset("d.e");
  CHECK(options.json().dump() == R"({"a":{"c":2},"d":3})");
  options.unset("a");
  CHECK(options.json().dump() == R"({"d":3})");
}

TEST_CASE("switches") {
  auto options = options_of(R"({"t": true, "f": false, "one": 1, "zero": 0, "half": 0.5, "s0": "0", "s1": "1",
    "st": "true", "sf": "false", "son": "on", "soff": "off", "word": "maybe", "list": [1], "empty": "", "null": null})");
  for (const char* on : {"t", "one", "half", "s1", "st", "son"}) CHECK(options.flag(on).value());
  for (const char* off : {"f", "zero", "s0", "sf", "soff", "none", "t.none"})
    CHECK_FALSE(options.flag(off).value());
  CHECK(options.flag("word").error().message == "word: expected on or off, got \"maybe\"");
  CHECK(options.flag("list").error().message == "list: expected on or off, got an array");
  CHECK(options.flag("empty").error().message == "empty: expected on or off, got \"\"");
  CHECK(options.flag("null").error().message == "null: expected on or off, got null");
}

TEST_CASE("arguments: a switch, JSON, or else text") {
  CHECK(after_arguments({"verbose"}) == R"({"verbose":1})");
  CHECK(after_arguments({"verbose=2"}) == R"({"verbose":2})");
  CHECK(after_arguments({"x=abc"}) == R"({"x":"abc"})");
  CHECK(after_arguments({"x="}) == R"({"x":""})");
  CHECK(after_arguments({"x=007"}) == R"({"x":"007"})");
  CHECK(after_arguments({"x=null", "y=true", "z=-1.5"}) == R"({"x":null,"y":true,"z":-1.5})");
  CHECK(after_arguments({R"(x={"a":[1]})"}) == R"({"x":{"a":[1]}})");
  CHECK(after_arguments({R"(x={"a":)"}) == R"({"x":"{\"a\":"})");
  CHECK(after_arguments({"x=a=b"}) == R"({"x":"a=b"})");
  CHECK(after_arguments({R"(x="5")"}) == R"({"x":"5"})");
}

TEST_CASE("arguments: dotted names, the last one wins") {
  CHECK(after_arguments({"per-resource.type=core", "per-resource.count=2"}) ==
        R"({"per-resource":{"count":2,"type":"core"}})");
  CHECK(after_arguments({"a=1", "a=2"}) == R"({"a":2})");
  CHECK(after_arguments({"a=1", "a.b=2"}) == R"({"a":{"b":2}})");
  CHECK(after_arguments({"x=1.5.6"}) == R"({"x":"1.5.6"})");
}

TEST_CASE("arguments that name nothing") {
  const std::string want = "expected OPT or OPT=VAL, OPT being a name or names joined by dots, got ";
  for (std::string bad : {"", "=x", "a..b", ".a", "a.", ".", "a..b=1", "a.=1"}) {
    CHECK(after_arguments({bad.c_str()}) == want + "'" + bad + "'");
  }
}

TEST_CASE("arguments do not nest without bound") {
  auto dotted = [](std::size_t names) {
    std::string path = "a";
    for (std::size_t i = 1; i < names; ++i) path += ".a";
    return path;
  };
  Options options;
  CHECK(options.set_from_argument(dotted(128)).has_value());
  CHECK(options.set_from_argument(dotted(129)).error().message.find("nested deeper than 128 levels: 'a.a.") == 0);
  CHECK_FALSE(options.set_from_argument(dotted(100000)));
}

TEST_CASE("an option that is a value or an object keeps the value as a member") {
  Options options;
  options.set("exit-timeout", "10s");
  CHECK(options.value_at("exit-timeout")->json() == "10s");
  options.set("exit-timeout.after", "failure");
  CHECK(*options.find("exit-timeout") == Json{{"timeout", "10s"}, {"after", "failure"}});
  options.set("exit-timeout", 5);
  CHECK(*options.find("exit-timeout") == Json{{"timeout", 5}, {"after", "failure"}});
  CHECK(options.value_at("exit-timeout")->path() == "exit-timeout.timeout");
  options.set("exit-timeout", Json{{"after", "exit"}});  // an object replaces the whole option
  CHECK(*options.find("exit-timeout") == Json{{"after", "exit"}});
  CHECK_FALSE(options.value_at("exit-timeout"));

  REQUIRE(options.set_from_argument("exit-on-error.grace=5s"));
  REQUIRE(options.set_from_argument("exit-on-error=25%"));
  CHECK(*options.find("exit-on-error") == Json{{"when", "25%"}, {"grace", "5s"}});
  REQUIRE(options.set_from_argument("exit-on-error"));
  CHECK(*options.find("exit-on-error.when") == 1);

  for (bool swap : {false, true}) {
    Options both;
    REQUIRE(both.set_from_argument(swap ? "exit-notify=3" : "exit-notify.threshold=5%"));
    REQUIRE(both.set_from_argument(swap ? "exit-notify.threshold=5%" : "exit-notify=3"));
    CHECK(*both.find("exit-notify") == Json{{"to", 3}, {"threshold", "5%"}});
  }

  options.set("kill-timeout", 5);  // any other one
  options.set("kill-timeout.x", 1);
  CHECK(*options.find("kill-timeout") == Json{{"x", 1}});
  CHECK(options.value_at("kill-timeout")->json().is_object());
}

TEST_CASE("a value and members keep each other in either order, whatever the option") {
  const std::pair<std::vector<const char*>, const char*> cases[] = {
      {{"exit-on-error=2", "exit-on-error.grace=5"}, R"({"exit-on-error":{"grace":5,"when":2}})"},
      {{"exit-on-error=first", "exit-on-error.ranks=0-3", "exit-on-error.then=note"},
       R"({"exit-on-error":{"ranks":"0-3","then":"note","when":"first"}})"},
      {{"exit-timeout=none", "exit-timeout.after=failure"},
       R"({"exit-timeout":{"after":"failure","timeout":"none"}})"},
      {{"pmi=pmi2", "pmi.max-size=1M"}, R"({"pmi":{"max-size":"1M","use":"pmi2"}})"},
      {{"cpu-affinity=off", "cpu-affinity.verbose"}, R"({"cpu-affinity":{"mode":"off","verbose":1}})"},
      {{"gpu-affinity=per-task", "gpu-affinity.dry-run"}, R"({"gpu-affinity":{"dry-run":1,"mode":"per-task"}})"},
      {{"prolog=true", "prolog.timeout=5s"}, R"({"prolog":{"command":true,"timeout":"5s"}})"},
      {{"task-epilog=[\"a\", \"b\"]", "task-epilog.timeout=5s"},
       R"({"task-epilog":{"command":["a","b"],"timeout":"5s"}})"},
  };
  for (auto [arguments, expected] : cases) {
    std::sort(arguments.begin(), arguments.end());
    do {
      Options options;
      for (const char* each : arguments) REQUIRE(options.set_from_argument(each));
      CHECK(options.json().dump() == expected);
    } while (std::next_permutation(arguments.begin(), arguments.end()));
  }
}

TEST_CASE("a switch that is an object is turned on without losing its members") {
  for (const char* on : {"pty", "pty=1", "pty=true", "pty=on"}) {
    for (bool swap : {false, true}) {
      Options options;
      REQUIRE(options.set_from_argument(swap ? on : "pty.ranks=0"));
      REQUIRE(options.set_from_argument(swap ? "pty.ranks=0" : on));
      CHECK(options.json().dump() == R"({"pty":{"ranks":0}})");
    }
  }
  Options options;
  REQUIRE(options.set_from_argument("fault-tolerance.signal=SIGUSR1"));
  REQUIRE(options.set_from_argument("fault-tolerance=off"));
  CHECK(options.json().dump() == R"({"fault-tolerance":"off"})");
  REQUIRE(options.set_from_argument("fault-tolerance.signal=SIGUSR1"));
  REQUIRE(options.set_from_argument("fault-tolerance=maybe"));  // the option's reader refuses it
  CHECK(options.json().dump() == R"({"fault-tolerance":"maybe"})");
  options.set("fault-tolerance", Json{{"signal", 10}});
  CHECK(options.json().dump() == R"({"fault-tolerance":{"signal":10}})");
}

TEST_CASE("arguments: an option for which 1 is no sensible value needs one, and names what is expected") {
  CHECK(after_arguments({"time-limit"}) ==
        "expected a time, such as 30s or 1.5h (none, 10m, 1h): -o time-limit=TIME");
  CHECK(after_arguments({"output.limit"}) ==
        "expected a number of bytes, such as 4096 or 10M: -o output.limit=SIZE");
  CHECK(after_arguments({"rlimit.core"}) == "expected a number: -o rlimit.core=N");
  CHECK(after_arguments({"input.ranks"}) == "expected ranks, such as 0-3,7 (all): -o input.ranks=RANKS");
  // Options for which 1 would mean something else: a descriptor, a signal, a rank.
  for (const char* name : {"report", "exit-notify", "exit-notify.fd", "signal.signum", "exit-main", "exit-ok",
                           "exit-timeout", "exit-timeout.timeout", "kill-timeout", "attach.scrollback"})
    CHECK(after_arguments({name}).find(fmt::format("-o {}=", name)) != std::string::npos);
}

TEST_CASE("arguments: each option of the table takes 1, or says what it needs") {
  std::vector<std::string> take_one;
  for (const nacre::job::OptionEntry& each : nacre::job::option_table()) {
    bool needs_value = !nacre::job::missing_value(each.name).empty();
    bool is_switch = std::string_view(each.type) == "switch" || std::string_view(each.type) == "object";
    if (is_switch) CHECK_FALSE(needs_value);
    if (!is_switch && !needs_value) take_one.emplace_back(each.name);
  }
  CHECK(take_one == std::vector<std::string>{"verbose", "taskmap.value", "per-resource.count", "oversubscribe",
                                             "cpu-affinity", "gpu-affinity", "exit-report", "usage", "timeline",
                                             "exit-notify.threshold", "exit-on-error", "exit-on-error.when",
                                             "stage-in.pattern", "health", "env-expand.<NAME>",
                                             "output.stdout.label", "output.stdout.timestamps",
                                             "output.stderr.label", "output.stderr.timestamps"});
  // An option that is not in the table, or a member of one that is, belongs to the site.
  CHECK(nacre::job::missing_value("greeting").empty());
  CHECK(nacre::job::missing_value("exit-timeout.greeting").empty());
}
