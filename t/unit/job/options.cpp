// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "job/option_table.hpp"
#include "job/options.hpp"

using namespace nacre;  // NOLINT: the functions under test are nacre::job's
using job::Coprocess;
using job::EndTime;
using job::OnLost;
using job::Options;
using job::RestartOption;
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

namespace {

// The result of reading the option `it` with this value, as JSON: an error is the text after the name.
template <typename Read>
Json read(Read reader, const char* value) {
  Json json = Json::parse(value);
  auto got = reader(JsonAt::root(json, "it"));
  if (!got) return got.error().message;
  return *got;
}

Json seconds(const char* value) {
  return read([](const JsonAt& at) { return job::seconds_option(at).map(&value::Duration::seconds); }, value);
}

Json ranks(const char* value) {
  return read(
      [](const JsonAt& at) -> Result<std::string> {
        auto ranks = TRY(job::ranks_option(at));
        return ranks ? ranks->str() : "all";
      },
      value);
}

Json size(const char* value) { return read(job::size_option, value); }
Json list(const char* value) { return read(job::list_option, value); }

}  // namespace

TEST_CASE("a time is a number of seconds or a duration, never negative") {
  CHECK(seconds("5") == 5);
  CHECK(seconds("0.25") == 0.25);
  CHECK(seconds("0") == 0);
  CHECK(seconds(R"("2m")") == 120);
  CHECK(seconds(R"("100ms")") == 0.1);
  CHECK(seconds(R"("7")") == 7);
  CHECK(job::seconds_option(JsonAt::root(Json("infinity"), "it"))->is_infinite());
  CHECK(seconds("-1") == "it: expected a time that is not negative, got -1");
  CHECK(seconds("true") == "it: expected seconds or a duration such as \"30s\", got true");
  CHECK(seconds("[1]") == "it: expected seconds or a duration such as \"30s\", got an array");
  CHECK(seconds(R"("soon")").get<std::string>().starts_with("it: "));
}

TEST_CASE("a size is a number of bytes, or has a unit, a power of 1024") {
  CHECK(size("4096") == 4096);
  CHECK(size("0") == 0);
  CHECK(size(R"("4096")") == 4096);
  CHECK(size(R"("1k")") == 1024);
  CHECK(size(R"("10M")") == 10 << 20);
  CHECK(size(R"("2g")") == std::uint64_t{2} << 30);
  CHECK(size(R"("1T")") == std::uint64_t{1} << 40);
  CHECK(size(R"("1.5k")") == 1536);
  for (const char* wrong :
       {R"("")", R"("M")", R"("10MB")", R"("10x")", R"("10 M")", R"("-1")", "-1", "1e19", R"("nan")", "[]"}) {
    CAPTURE(wrong);
    CHECK(size(wrong).get<std::string>().starts_with(
        "it: expected a number of bytes, such as 4096 or \"10M\", got "));
  }
}

TEST_CASE("ranks are all, an idset, a rank, or an array of ranks as the command line makes it") {
  CHECK(ranks(R"("all")") == "all");
  CHECK(ranks(R"("0-3,7")") == "0-3,7");
  CHECK(ranks("3") == "3");
  CHECK(ranks("[0,2]") == "0,2");
  CHECK(ranks(R"("[0-1]")") == "0-1");
  CHECK(ranks(R"("some")").get<std::string>().starts_with("it: "));
  CHECK(ranks("-1").get<std::string>().starts_with("it: "));
}

TEST_CASE("a list of names is an array, or text with commas") {
  CHECK(list(R"(["a", "b"])") == Json({"a", "b"}));
  CHECK(list(R"("a, b,c")") == Json({"a", "b", "c"}));
  CHECK(list("17") == Json({"17"}));
  CHECK(list("true").get<std::string>().starts_with("it: expected "));
  CHECK(list("[1]").get<std::string>().starts_with("it[0]: expected "));
}

TEST_CASE("kill-timeout is 5 s if it is not set") {
  CHECK(job::kill_timeout(job::Options())->seconds() == 5);
  CHECK(job::kill_timeout(job::Options(Json{{"kill-timeout", "100ms"}}))->seconds() == 0.1);
  CHECK(job::kill_timeout(job::Options(Json{{"kill-timeout", -1}})).error().message ==
        "kill-timeout: expected a time that is not negative, got -1");
}

TEST_CASE("ranks that a job of so many tasks has not") {
  auto check = [](const char* ranks, std::uint64_t tasks) {
    auto result = job::check_ranks("x.ranks", *value::Idset::parse(ranks), tasks);
    return result ? std::string() : result.error().message;
  };
  CHECK(job::check_ranks("x.ranks", std::nullopt, 1));
  CHECK(check("", 1).empty());
  CHECK(check("0-3", 4).empty());
  CHECK(check("0-4", 4) == "x.ranks: the job has no task 4; it has 0-3");
  CHECK(check("7", 1) == "x.ranks: the job has no task 7; its only one is 0");
}

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

namespace {

Result<std::optional<EndTime>> manager(const std::string& slurm) {
  return job::manager_end([&](const char* name) {
    return std::string(name) == "SLURM_JOB_END_TIME" ? std::optional(slurm) : std::nullopt;
  });
}

}  // namespace

TEST_CASE("Slurm says when a job's time is over") {
  auto end = manager("1700000000");
  REQUIRE(end);
  REQUIRE(*end);
  CHECK((*end)->at == 1700000000);
  CHECK((*end)->over == "the time that Slurm has given is over");
  for (const char* none : {"", "0"}) {
    REQUIRE(manager(none));
    CHECK_FALSE(*manager(none));
  }
  auto no_manager = job::manager_end([](const char*) { return std::nullopt; });
  REQUIRE(no_manager);
  CHECK_FALSE(*no_manager);
}

TEST_CASE("an end that is no time is an error") {
  for (const char* text : {"soon", "-5", "1.5", "17000000000000000000", "1 "}) {
    auto end = manager(text);
    REQUIRE_FALSE(end);
    CHECK(end.error().message ==
          "SLURM_JOB_END_TIME: expected seconds since the Epoch, got '" + std::string(text) + "'");
  }
}

TEST_CASE("R's expiration is what counts, if it has one") {
  job::Resources resources;
  auto variables = [](const char*) { return std::optional<std::string>("1700000000"); };
  CHECK((*job::end_time(resources, variables))->at == 1700000000);
  resources.expiration = 5;
  CHECK((*job::end_time(resources, variables))->at == 5);
  CHECK((*job::end_time(resources, variables))->over == "R has expired");
}

TEST_CASE("the earliest end of all that are known") {
  job::Resources resources;
  const std::optional<EndTime> none, manager(EndTime{1000, "manager"});
  const auto limit = std::optional(value::Duration::of_seconds(100));
  auto at = [&](const auto& by_manager, const std::optional<value::Duration>& by_option, double duration) {
    auto end = job::earliest_end(resources, by_manager, by_option, duration, 500);
    return end ? end->at : -1;
  };
  CHECK(at(none, std::nullopt, 0) == -1);
  CHECK(at(manager, std::nullopt, 0) == 1000);
  CHECK(at(none, limit, 0) == 600);
  CHECK(at(none, std::nullopt, 300) == 800);
  CHECK(at(none, limit, 50) == 600);  // the option is what counts
  CHECK(at(none, value::Duration::infinite(), 50) == -1);
  CHECK(at(manager, std::nullopt, 300) == 800);
  CHECK(at(manager, std::nullopt, 600) == 1000);
  resources.expiration = 700;
  CHECK(at(manager, std::nullopt, 300) == 700);
  CHECK(at(manager, limit, 300) == 600);
  CHECK(job::earliest_end(resources, none, std::nullopt, 0, 500)->over == "R has expired");
}

TEST_CASE("the time left that squeue prints") {
  for (auto [text, seconds] :
       {std::pair{"45", 45}, {"1:05", 65}, {"59:59\n", 3599}, {"2:00:01", 7201}, {"1-00:00:00", 86400}})
    CHECK(job::parse_slurm_time_left(text).value() == seconds);
  CHECK_FALSE(job::parse_slurm_time_left("UNLIMITED").value());
  CHECK_FALSE(job::parse_slurm_time_left("NOT_SET").value());
  for (const char* text : {"", "INVALID", "1:2:3:4", "-1", "x-1:00", "1:-2"})
    CHECK_FALSE(job::parse_slurm_time_left(text));
}

TEST_CASE("on-lost: what each value means, and tolerate-loss beside it") {
  CHECK(OnLost::read(Options()).value() == OnLost{false, false});
  CHECK(OnLost::read(Options(Json{{"tolerate-loss", true}})).value() == OnLost{false, true});
  CHECK(OnLost::read(Options(Json{{"on-lost", "end"}})).value() == OnLost{false, false});
  CHECK(OnLost::read(Options(Json{{"on-lost", "go-on"}})).value() == OnLost{false, true});
  CHECK(OnLost::read(Options(Json{{"on-lost", "replace"}})).value() == OnLost{true, false});
  CHECK(OnLost::read(Options(Json{{"on-lost", "replace,else=end"}})).value() == OnLost{true, false});
  CHECK(OnLost::read(Options(Json{{"on-lost", "replace,else=go-on"}})).value() == OnLost{true, true});
  CHECK(OnLost::read(Options(Json{{"on-lost", "go-on"}, {"tolerate-loss", 1}})).value() == OnLost{false, true});
  CHECK(OnLost::read(Options(Json{{"on-lost", "replace"}, {"tolerate-loss", 0}})).value() == OnLost{true, false});
}

TEST_CASE("on-lost: what it cannot be is refused in words") {
  for (const Json& wrong :
       {Json("replace,else=x"), Json("replace,"), Json("restart"), Json(1), Json(true), Json("")}) {
    auto read = OnLost::read(Options(Json{{"on-lost", wrong}}));
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find("on-lost: expected end, go-on, replace") == 0);
  }
  for (const char* other : {"end", "replace", "replace,else=go-on"}) {
    auto both = OnLost::read(Options(Json{{"on-lost", other}, {"tolerate-loss", true}}));
    REQUIRE_FALSE(both);
    CHECK(both.error().message.find("on-lost: tolerate-loss is on-lost=go-on, and contradicts it") == 0);
  }
}

namespace {

Result<RestartOption> restart(Json value) {
  return RestartOption::read(job::Options(Json{{"restart", std::move(value)}}));
}
std::string why(Json value) { return restart(std::move(value)).error().message; }

}  // namespace

TEST_CASE("restart: without it nothing starts again; a word alone has the defaults") {
  CHECK_FALSE(RestartOption::read(job::Options())->is_on());
  CHECK_FALSE(restart("never")->is_on());
  auto out = restart("on-failure").value();
  CHECK(out.when == RestartOption::When::on_failure);
  CHECK(out.max == 3);
  CHECK_FALSE(out.per_task);
  CHECK(out.first.seconds() == 1);
  CHECK(out.longest.seconds() == 60);
  CHECK(out.codes.empty());
  CHECK(out.scope == RestartOption::Scope::task);
  CHECK(restart("always")->when == RestartOption::When::always);
  out = restart("on-request,scope=job").value();
  CHECK(out.when == RestartOption::When::on_request);
  CHECK(out.scope == RestartOption::Scope::job);
  CHECK(out.is_on());
  CHECK(restart("always,scope=node")->scope == RestartOption::Scope::node);
  CHECK(restart("always,scope=task")->scope == RestartOption::Scope::task);
  CHECK(out.where == RestartOption::Where::same);
  CHECK(restart("on-request,scope=job,where=any")->where == RestartOption::Where::any);
  CHECK(restart("always,where=spare")->where == RestartOption::Where::spare);
  CHECK(restart("always,where=same")->where == RestartOption::Where::same);
}

TEST_CASE("restart: members in any order, and codes with commas") {
  auto out = restart("on-failure,codes=3,64-66,139,max=7,backoff=100ms:2m,scope=job,per-task=2").value();
  CHECK(out.codes.str() == "3,64-66,139");
  CHECK(out.max == 7);
  CHECK(out.per_task == 2);
  CHECK(out.first.seconds() == 0.1);
  CHECK(out.longest.seconds() == 120);
  CHECK(out.scope == RestartOption::Scope::job);
  CHECK(restart("on-failure,max=1,codes=7,9")->codes.str() == "7,9");
  CHECK(restart("on-failure,per-task=2")->max == RestartOption::kMost);
  CHECK(restart("on-failure")->max == 3);
  CHECK(restart("always,backoff=5m")->longest.seconds() == 300);  // a first time beyond the usual longest
  CHECK(restart("always,backoff=0")->longest.seconds() == 60);
}

TEST_CASE("restart: without progress") {
  using Look = RestartOption::NoProgress::Look;
  auto out = restart("on-failure,no-progress=3").value();
  REQUIRE(out.no_progress);
  CHECK(out.no_progress->restarts == 3);
  CHECK(out.no_progress->look == Look::output);
  CHECK(out.no_progress->what == "step");
  CHECK(out.max == RestartOption::kMost);  // the limit is used instead
  CHECK(restart("on-failure,no-progress=3:output")->no_progress == out.no_progress);
  CHECK(restart("on-failure,no-progress=3:output:epoch")->no_progress->what == "epoch");
  out = restart("always,max=9,no-progress=8:ckpt/latest:1,scope=job").value();
  CHECK(out.no_progress->look == Look::file);
  CHECK(out.no_progress->what == "ckpt/latest:1");
  CHECK(out.max == 9);
  CHECK(restart("always,no-progress=1:./output")->no_progress->what == "./output");
  CHECK(restart("always,no-progress=1:outputs")->no_progress->look == Look::file);
  out = restart("always,no-progress=1:!wc -l <log:1,max=2").value();
  CHECK(out.no_progress->look == Look::command);
  CHECK(out.no_progress->what == "wc -l <log:1");
  CHECK_FALSE(restart("always,max=2")->no_progress);
  for (const char* value : {"", "0", "x", "1000001", "3:", "3:!", "3:! ", "3:output:", ":file", "-1:file"}) {
    CAPTURE(value);
    CHECK(why(std::string("always,no-progress=") + value) ==
          "restart: no-progress: expected a number of restarts, 1 to 1000000, and perhaps what is to change "
          "meanwhile, as 3:checkpoints/latest, 3:output:step or 3:!COMMAND, got '" +
              std::string(value) + "'");
  }
  for (const char* members : {"no-progress=3,max=3", "max=2,no-progress=3:file"})
    CHECK(why(std::string("always,") + members)
              .starts_with("restart: no-progress: 3 restarts are not fewer than max ("));
  CHECK(why("always,no-progress=3,max=3")
            .ends_with("max (3), which ends the job before: give a larger max, or none"));
}

TEST_CASE("restart: what it cannot be is named, with what it can be") {
  constexpr const char* kWords =
      "restart: expected never, on-request, on-failure or always, and perhaps more, as "
      "on-failure,max=5,backoff=1s:60s, got ";
  CHECK(why("often") == kWords + std::string("\"often\""));
  CHECK(why(true) == kWords + std::string("true"));
  CHECK(why("on-failure,max=0") ==
        "restart: max: expected a number of restarts, 1 to 1000000 (restart=never is none), got '0'");
  CHECK(why("on-failure,per-task=x").starts_with("restart: per-task: expected a number of restarts"));
  CHECK(why("on-failure,backoff=3s:2s") ==
        "restart: backoff: expected a time, or two as 1s:60s, the first and the longest, got '3s:2s'");
  for (const char* time : {"", "x", "1s:", ":1s", "infinity", "1s:infinity", "1:2:3"})
    CHECK(why(std::string("always,backoff=") + time).starts_with("restart: backoff: expected a time"));
  for (const char* member : {"max=3", "per-task=1", "backoff=0", "codes=3", "no-progress=3", "scope=job,max=1"})
    CHECK(
        why(std::string("on-request,") + member) ==
        "restart: on-request has no limits, as only nacre restart starts tasks again: it has scope and where only");
  for (const char* codes : {"0", "256", "", "x"})
    CHECK(why(std::string("on-failure,codes=") + codes).starts_with("restart: codes: expected exit codes"));
  CHECK(why("on-failure,scope=shell") == "restart: scope: expected task, node or job, got 'shell'");
  CHECK(why("on-failure,where=here") == "restart: where: expected same, spare or any, got 'here'");
  CHECK(why("on-request,where=spare") ==
        "restart: on-request starts tasks where they were: where=spare is for on-failure and always");
  CHECK(why("on-failure,backof=1") ==
        "restart: there is no 'backof'; did you mean backoff?; restart has max, per-task, backoff, codes, "
        "no-progress, scope, where");
  CHECK(why("on-failure,3") == "restart: expected NAME=VALUE behind a comma, got '3'");
  CHECK(why("on-failure,") == "restart: expected NAME=VALUE behind a comma, got ''");
  CHECK(why("never,max=3") == "restart: never has no members: leave them out");
  CHECK(why("always,codes=3") ==
        "restart: codes chooses among failures, and always means each end: use on-failure with codes");
}
