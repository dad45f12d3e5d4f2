// SPDX-License-Identifier: Apache-2.0
//
// A jobspec as people write it by hand.
#include "catch.hpp"

#include "base/json.hpp"
#include "job/jobspec.hpp"

using nacre::Json;
using nacre::job::Jobspec;

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
