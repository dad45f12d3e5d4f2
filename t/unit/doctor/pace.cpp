// SPDX-License-Identifier: Apache-2.0
#include "doctor/pace.hpp"

#include "catch.hpp"

#include "doctor/findings.hpp"

using namespace nacre;
using doctor::NodePace;

namespace {

// Four tasks, each with so much of a cpu, and so much for which it was ready to run.
NodePace node(std::uint32_t shell, double cpu, double ready, double bytes = 0) {
  NodePace out;
  out.shell = shell;
  out.host = "n" + std::to_string(shell);
  for (std::uint32_t i = 0; i < 4; ++i) {
    doctor::TaskGroup group;
    group.ranks.insert(shell * 4 + i);
    group.cpu.add(cpu);
    group.ready.add(ready);
    if (bytes > 0) group.bytes.add(bytes + 100 * i);
    out.add(group);
  }
  return out;
}

std::string slow(const std::vector<NodePace>& nodes) {
  std::string out;
  for (const auto& each : doctor::slow_nodes(nodes)) out += (out.empty() ? "" : " ") + each.node->host;
  return out;
}

}  // namespace

TEST_CASE("a node whose tasks get far less of the cpu time that they could use is slow") {
  CHECK(slow({node(0, 1, 0), node(1, 0.4, 0.6)}) == "n1");
  CHECK(slow({node(0, 1, 0.02), node(1, 0.5, 0.5), node(2, 0.98, 0)}) == "n1");
  auto found = doctor::slow_nodes({node(0, 0.98, 0.02), node(1, 0.4, 0.6)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].evidence ==
        "they get 40 % of the cpu time that they could use, those of the other nodes at least 98 %, so others use "
        "its cpus too");
}

TEST_CASE("no node is slow as all are, as none wants much, or as it is not clear") {
  CHECK(slow({}).empty());
  CHECK(slow({node(0, 0.4, 0.6)}).empty());
  CHECK(slow({node(0, 0.4, 0.6), node(1, 0.4, 0.6)}).empty());
  CHECK(slow({node(0, 1, 0), node(1, 0.1, 0.2)}).empty());        // it wants little
  CHECK(slow({node(0, 0.01, 0), node(1, 0.4, 0.6)}).empty());     // the other wants little
  CHECK(slow({node(0, 0.85, 0.15), node(1, 0.5, 0.5)}).empty());  // the other is not well either
  CHECK(slow({node(0, 1, 0), node(1, 0.4, 0.6), node(2, 0.4, 0.6)}).empty());
  NodePace unknown = node(1, 0.4, 0);
  unknown.ready = {};
  CHECK(slow({node(0, 1, 0), unknown}).empty());
}

TEST_CASE("a node each of whose tasks has written far less than all others is slow") {
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000), node(2, 0, 0, 92'000)}) == "n1");
  auto found = doctor::slow_nodes({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000), node(2, 0, 0, 92'000)});
  CHECK(found[0].evidence == "they have written 39 KiB each so far, those of the other nodes 88 to 90 KiB");
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000)}).empty());                         // two are too few
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 80'000), node(2, 0, 0, 92'000)}).empty());  // not far
  CHECK(slow({node(0, 0, 0, 900), node(1, 0, 0, 100), node(2, 0, 0, 920)}).empty());           // too little
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000), node(2, 0, 0, 41'000)}).empty());  // too many
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000), node(2, 0, 0)}).empty());          // not known of all
  std::vector<NodePace> six;
  for (std::uint32_t i = 0; i < 6; ++i) six.push_back(node(i, 0, 0, i < 2 ? 30'000 : 90'000));
  CHECK(slow(six) == "n0 n1");
}

TEST_CASE("the verdict names the node and its ranks") {
  doctor::Examination examination;
  examination.tasks = 8;
  examination.interval = 1;
  examination.nodes = {node(0, 1, 0), node(1, 0.4, 0.6)};
  auto verdicts = doctor::verdicts(examination);
  REQUIRE(verdicts.size() == 1);
  CHECK(name_of(verdicts[0].kind) == "slow-node");
  CHECK(verdicts[0].ranks.str() == "4-7");
  CHECK(verdicts[0].text == "n1 is slow: its 4 tasks get on more slowly than others");
}
