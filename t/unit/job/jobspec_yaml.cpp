// SPDX-License-Identifier: Apache-2.0
//
// A jobspec as people write it by hand.
#include "catch.hpp"

#include "job/jobspec.hpp"

using nacre::Json;
using nacre::job::Jobspec;
using nacre::job::yaml_to_json;

namespace {

constexpr const char* kByHand = R"(%YAML 1.2
---
# Two nodes, as asked for on Monday.
version: 1
resources:
  - type: node            # whole nodes
    count: 0x2
    exclusive: true
    with:
      - type: slot
        label: "task"
        count: 4          # a node
        with:
          - type: core
            count: 02
          - { type: gpu, count: 1 }

tasks:
  - slot: task
    count: {per_slot: 1}
    command:
      - bash
      - -c
      - |
        # no comment of YAML
        set -e
        if [ "$DEBUG" = yes ]; then
          echo 'a: b'	"c" # d
        fi

        exec ./app --level=3
      - >-
        one line,
        folded from
        two
      - '1'
      - "true"
      - 1.50e
      - yes
      - it's -- here:now#1
      - 'don''t'
      - "tab\tquote\" \u0192 \
        continued"
      - &nothing ""
      - *nothing

attributes:
  system:
    duration: 1800.
    cwd: /home/user/my runs
    environment:
      PATH: /usr/bin:/bin
      OMP_NUM_THREADS: "1"
      DEBUG: yes
      NO: no
      COLOR: 'true'
      EMPTY: ""
      NOTHING: ~
      VERSION: 1.2.3
      ZIP: '00123'
      HEX: '0xff'
      WHEN: 2024-02-30
      RATIO: 16:9
      OPTIONS: -Xmx2g -Dkey="a b"   # not quoted as a whole
      LIST: |
        first
        second
      ON: !!str 1
    shell:
      options:
        label-io: true
        verbose: 2
        exit-timeout: none
        kill-timeout: 1.5s
        taskmap: {scheme: cyclic, value: "2"}
        rlimit:
          nofile: 1024
          core: -1
        cpu-affinity: off
  user:
    notes: [~, 1e3, 0o17, .5, False]
...
)";

std::string error_of(const std::string& text) {
  auto spec = Jobspec::parse(text);
  return spec ? "accepted" : spec.error().message;
}

std::string with(std::string_view what, std::string_view instead) {
  std::string text = kByHand;
  std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), instead);
}

}  // namespace

TEST_CASE("a jobspec written by hand: the request") {
  auto spec = Jobspec::parse(kByHand).value();
  CHECK(spec.nodes == 2U);
  CHECK(spec.node_exclusive);
  CHECK(spec.slots_per_node == 4U);
  CHECK(spec.slots == 8);
  CHECK(spec.cores_per_slot == 2);
  CHECK(spec.gpus_per_slot == 1);
  CHECK(spec.tasks() == 8);
  CHECK(spec.duration == 1800);
  CHECK(spec.cwd == "/home/user/my runs");
}

TEST_CASE("a jobspec written by hand: the command") {
  auto spec = Jobspec::parse(kByHand).value();
  CHECK(spec.command == std::vector<std::string>{
                            "bash",
                            "-c",
                            "# no comment of YAML\nset -e\nif [ \"$DEBUG\" = yes ]; then\n"
                            "  echo 'a: b'\t\"c\" # d\nfi\n\nexec ./app --level=3\n",
                            "one line, folded from two",
                            "1",
                            "true",
                            "1.50e",
                            "yes",
                            "it's -- here:now#1",
                            "don't",
                            "tab\tquote\" \xc6\x92 continued",
                            "",
                            "",
                        });
}

TEST_CASE("a jobspec written by hand: the environment") {
  auto spec = Jobspec::parse(kByHand).value();
  CHECK(spec.environment == std::vector<std::pair<std::string, std::string>>{
                                {"COLOR", "true"},
                                {"DEBUG", "yes"},
                                {"EMPTY", ""},
                                {"HEX", "0xff"},
                                {"LIST", "first\nsecond\n"},
                                {"NO", "no"},
                                {"OMP_NUM_THREADS", "1"},
                                {"ON", "1"},
                                {"OPTIONS", "-Xmx2g -Dkey=\"a b\""},
                                {"PATH", "/usr/bin:/bin"},
                                {"RATIO", "16:9"},
                                {"VERSION", "1.2.3"},
                                {"WHEN", "2024-02-30"},
                                {"ZIP", "00123"},
                            });
}

TEST_CASE("a jobspec written by hand: the shell's options, and what is the user's own") {
  auto spec = Jobspec::parse(kByHand).value();
  CHECK(spec.options == Json::parse(R"({"label-io": true, "verbose": 2, "exit-timeout": "none",
    "kill-timeout": "1.5s", "taskmap": {"scheme": "cyclic", "value": "2"}, "rlimit": {"nofile": 1024, "core": -1},
    "cpu-affinity": "off"})"));
  CHECK(spec.document["attributes"]["user"]["notes"] == Json::parse("[null, 1000.0, 15, 0.5, false]"));
}

TEST_CASE("a scalar of a jobspec that needed its quotes is named, with what it was read as") {
  CHECK(error_of(with("'true'", "true")) == "attributes.system.environment.COLOR: expected a string, got true");
  CHECK(error_of(with("\"1\"", "1")) == "attributes.system.environment.OMP_NUM_THREADS: expected a string, got 1");
  CHECK(error_of(with("'00123'", "00123")) == "attributes.system.environment.ZIP: expected a string, got 123");
  CHECK(error_of(with("'0xff'", "0xff")) == "attributes.system.environment.HEX: expected a string, got 255");
  CHECK(error_of(with("1.2.3", "1.2")) == "attributes.system.environment.VERSION: expected a string, got 1.2");
  CHECK(error_of(with("- '1'", "- 1")) == "tasks[0].command[4]: expected a string, got 1");
  CHECK(error_of(with("- *nothing", "-")) == "tasks[0].command[12]: expected a string, got null");
  CHECK(error_of(with("count: 4 ", "count: 'x' ")) ==
        "resources[0].with[0].count: expected a positive integer, or a range as 2-8, 4+, 2-8:2 or 2-16:2:*, got "
        "\"x\"");
  CHECK(error_of(with("duration: 1800.", "duration: 30m")) ==
        "attributes.system.duration: expected a number, got \"30m\"");
}

TEST_CASE("slips of indentation in a jobspec are told with their line") {
  CHECK(error_of(with("    label: \"task\"", "\tlabel: \"task\"")).starts_with("YAML: line 11, column "));
  CHECK(error_of(with("  - slot: task\n    count", "  - slot: task\n   count"))
            .starts_with("YAML: line 20, column "));
  CHECK(error_of(with("  user:", "  system:")) == "YAML: line 80, column 3: the key 'system' is here twice");
}

namespace {

std::string json_of(std::string_view yaml) {
  auto json = yaml_to_json(yaml);
  return json ? json->dump() : json.error().message;
}

std::string yaml_error(std::string_view yaml) {
  auto json = yaml_to_json(yaml);
  return json ? "accepted: " + json->dump().substr(0, 80) : json.error().message;
}

}  // namespace

TEST_CASE("plain scalars have the types of the core schema") {
  CHECK(json_of("[~, null, Null, NULL, ]") == "[null,null,null,null]");
  CHECK(json_of("- \n- a") == R"([null,"a"])");
  CHECK(json_of("[true, True, TRUE, false, False, FALSE]") == "[true,true,true,false,false,false]");
  CHECK(json_of("[0, 7, -7, +7, 007, -0]") == "[0,7,-7,7,7,0]");
  CHECK(json_of("[0o17, 0xfF, 0x0]") == "[15,255,0]");
  CHECK(json_of("[1.5, .5, 5., -1.5e3, +2E-1, 3600.]") == "[1.5,0.5,5.0,-1500.0,0.2,3600.0]");
}

TEST_CASE("what only looks like a type of YAML 1.1, or like a number, is text") {
  CHECK(json_of("[yes, no, on, off, y, nULL, tRUE]") == R"(["yes","no","on","off","y","nULL","tRUE"])");
  CHECK(json_of("[1_000, 0b1, 0o8, 0xg, -0x1, 1:30]") == R"(["1_000","0b1","0o8","0xg","-0x1","1:30"])");
  CHECK(json_of("[+-1, '.', -., e5, 1e, 1e+, 1.2.3, inf, nan]") ==
        R"(["+-1",".","-.","e5","1e","1e+","1.2.3","inf","nan"])");
  CHECK(json_of("[2001-12-14, <<]") == R"(["2001-12-14","<<"])");
}

TEST_CASE("quotes and block scalars are text") {
  CHECK(json_of(R"(['1', "true", "a\tb", '', "null"])") == R"(["1","true","a\tb","","null"])");
  CHECK(json_of("a: |\n  1\n  2\nb: >-\n  x\n  y\n") == R"({"a":"1\n2\n","b":"x y"})");
}

TEST_CASE("integers at the borders of their types") {
  CHECK(json_of("[9223372036854775807, -9223372036854775808, 18446744073709551615]") ==
        "[9223372036854775807,-9223372036854775808,18446744073709551615]");
  CHECK(yaml_to_json("18446744073709551616").value().is_number_float());
  CHECK(json_of("0xffffffffffffffff") == "18446744073709551615");
  CHECK(yaml_error("a: 0x10000000000000000") == "YAML: line 1, column 4: a number of more than 64 bits");
}

TEST_CASE("tags of the core schema") {
  CHECK(json_of("[!!str 5, !!str ~, ! 5, !!int '5', !!float 5, !!bool 'true', !!null '']") ==
        R"(["5","~","5",5,5.0,true,null])");
  CHECK(json_of("!!map {a: !!seq [1]}") == R"({"a":[1]})");
  CHECK(yaml_error("a: !!int x") == "YAML: line 1, column 4: 'x' does not go with the tag 'tag:yaml.org,2002:int'");
  CHECK(yaml_error("a: !mine x") == "YAML: line 1, column 4: 'x' does not go with the tag '!mine'");
  CHECK(yaml_error("!!seq {a: 1}") ==
        "YAML: line 1, column 1: the tag 'tag:yaml.org,2002:seq' does not go with this value");
}

TEST_CASE("numbers that JSON does not have") {
  CHECK(yaml_error("a: .inf") == "YAML: line 1, column 4: JSON has no number .inf");
  CHECK(yaml_error("- 1\n- -.INF") == "YAML: line 2, column 3: JSON has no number -.INF");
  CHECK(yaml_error(".nan") == "YAML: line 1, column 1: JSON has no number .nan");
  CHECK(yaml_error("1e999") == "YAML: line 1, column 1: a number that a double cannot hold");
}

TEST_CASE("keys") {
  CHECK(json_of("{1: a, true: b, x: c}") == R"({"1":"a","true":"b","x":"c"})");
  CHECK(json_of("{a, b}") == R"({"a":null,"b":null})");
  CHECK(json_of("'': 1") == R"({"":1})");
  CHECK(yaml_error("a: 1\nb: 2\na: 3") == "YAML: line 3, column 1: the key 'a' is here twice");
  CHECK(yaml_error("? [1]\n: 2") == "YAML: line 1, column 3: a key must be text, neither null nor a collection");
  CHECK(yaml_error("~: 1") == "YAML: line 1, column 1: a key must be text, neither null nor a collection");
}

TEST_CASE("documents") {
  CHECK(json_of("") == "null");
  CHECK(json_of("# nothing\n") == "null");
  CHECK(json_of("---\na: 1\n...\n") == R"({"a":1})");
  CHECK(json_of("%YAML 1.2\n---\na: 1\n") == R"({"a":1})");
  CHECK(yaml_error("a: 1\n---\nb: 2\n") == "YAML: line 2, column 1: a second document; expected one");
}

TEST_CASE("syntax errors say where") {
  CHECK(yaml_error("a: [1, 2").find("YAML: line 1, column ") == 0);
  CHECK(yaml_error("a: 1\n b: 2").find("YAML: line 2, column 3: ") == 0);
  CHECK(yaml_error("a: *b").find("YAML: line 1, column 4: ") == 0);
  CHECK(yaml_error("\t- a").find("YAML: line 1, column ") == 0);
}

TEST_CASE("bytes that YAML does not have") {
  CHECK(yaml_error("a: b\nc: \x04 d") == "YAML: line 2, column 4: the control character 0x04");
  CHECK(yaml_error(std::string("a: b\0", 5)) == "YAML: line 1, column 5: the control character 0x00");
  CHECK(yaml_error("\xff\xfe"
                   "a") == "YAML: line 1, column 1: not UTF-8");
  CHECK(yaml_error("\xc3\xa4: \xc3") == "YAML: line 1, column 4: not UTF-8");
  for (const char* bad :
       {"\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\x80"}) {
    CHECK(yaml_error(bad) == "YAML: line 1, column 1: not UTF-8");
  }
  CHECK(json_of("\xef\xbb\xbf"
                "a: \xc6\x92") == "{\"a\":\"\xc6\x92\"}");
}

// ---- aliases ---------------------------------------------------------------

TEST_CASE("an alias stands for a copy of its anchor") {
  CHECK(json_of("a: &x {n: [1]}\nb: *x\nc: [*x, *x]") ==
        R"({"a":{"n":[1]},"b":{"n":[1]},"c":[{"n":[1]},{"n":[1]}]})");
  CHECK(json_of("[&x 1, *x, &x 2, *x]") == "[1,1,2,2]");
  CHECK(json_of("{&k key: 1, b: *k}") == R"({"b":"key","key":1})");
}

TEST_CASE("an alias cannot stand in what it stands for") {
  CHECK(yaml_error("&x [*x]") == "YAML: line 1, column 5: an alias to what it stands in");
  CHECK(yaml_error("&x {a: {b: [1, *x]}}") == "YAML: line 1, column 16: an alias to what it stands in");
}

TEST_CASE("aliases cannot make a small text large") {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    std::string above = "*a" + std::to_string(i - 1);
    bomb += fmt::format("a{0}: &a{0} [{1},{1},{1},{1},{1},{1},{1},{1},{1},{1}]\n", i, above);
  }
  CHECK(yaml_error(bomb).find("too many values, aliases counted as what they stand for") != std::string::npos);
  std::string long_text = "[&a " + std::string(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) long_text += ", *a";
  CHECK(yaml_error(long_text + "]").find("too many values") != std::string::npos);
}

TEST_CASE("aliases cannot nest more deeply than the text may") {
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 200; ++i) chain += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  CHECK(yaml_error(chain).find("nested deeper than 128 levels") != std::string::npos);
}

// ---- limits ----------------------------------------------------------------

TEST_CASE("depth is bounded in each style") {
  std::string open(128, '[');
  std::string close(128, ']');
  CHECK(yaml_to_json(open + close).has_value());
  CHECK(yaml_error("[" + open + close + "]") == "YAML: line 1, column 129: nested deeper than 128 levels");
  for (const char* piece : {"[", "{a: ", "- ", "? ", "[? ", "!x [", "&x ["}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += piece;
    INFO(piece);
    CHECK_FALSE(yaml_to_json(text).has_value());
  }
}

TEST_CASE("size is bounded") {
  std::string text = "# " + std::string(nacre::job::kMaxYaml - 2, 'x');
  CHECK(yaml_to_json(text).has_value());
  CHECK(yaml_error(text + "x") == "YAML of 8388609 bytes; at most 8388608");
}

TEST_CASE("the number of values is bounded", "[long]") {
  std::string text = "[";
  for (int i = 0; i < (1 << 19) - 1; ++i) text += "~,";
  CHECK(yaml_to_json(text + "]").has_value());
  CHECK(yaml_error(text + "~,]").find("too many values") != std::string::npos);
}
