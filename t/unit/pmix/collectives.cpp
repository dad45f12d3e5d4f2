// SPDX-License-Identifier: Apache-2.0
#include "peer_message.hpp"

#include "catch.hpp"

using namespace nacre::pmix;  // NOLINT

namespace {

// The nodes of a job of six ranks on three nodes and a fourth without any, who all hear the same.
struct Nodes {
  Nodes() {
    std::vector<std::vector<Rank>> ranks = {{0, 1}, {2, 3}, {4, 5}, {}};
    for (std::size_t node = 0; node < ranks.size(); ++node) {
      nodes.push_back(std::make_unique<Collectives>(ranks, node));
    }
  }

  void enter(std::size_t node, const std::string& name) {
    nodes[node]->enter(name, [this, node](int status, const std::string& all) {
      said.push_back(std::to_string(node) + ": " + std::to_string(status) + " " + all);
    });
  }
  void part(std::size_t node, const std::string& name, const std::string& bytes, int status = 0) {
    for (auto& each : nodes) each->part(node, name, status, bytes);
  }
  void come(std::size_t node, const std::string& name, const std::string& bytes, int status = 0) {
    enter(node, name);
    part(node, name, bytes, status);
  }
  void ended(Rank rank) {
    for (auto& each : nodes) each->ended(rank);
  }
  void over(std::size_t node) {
    for (auto& each : nodes) each->over(node);
  }
  std::vector<std::string> take() { return std::exchange(said, {}); }

  std::vector<std::unique_ptr<Collectives>> nodes;
  std::vector<std::string> said;  // "NODE: STATUS BYTES"
};

using Said = std::vector<std::string>;
const std::string kAll = Collectives::name_of('f', {});

}  // namespace

TEST_CASE("nobody goes on before all have come, and all get everybody's parts, in one order") {
  Nodes nodes;
  nodes.come(2, kAll, "c");
  nodes.come(0, kAll, "a");
  CHECK(nodes.take().empty());
  nodes.come(1, kAll, "b");
  CHECK(nodes.take() == Said{"0: 0 abc", "1: 0 abc", "2: 0 abc"});
}

TEST_CASE("a part may come before this node's own processes have") {
  Nodes nodes;
  for (std::size_t node : {0, 1}) nodes.come(node, kAll, "x");
  nodes.enter(2, kAll);
  CHECK(nodes.take().empty());  // its part is not sent yet
  nodes.part(2, kAll, "y");
  CHECK(nodes.take().size() == 3);
}

TEST_CASE("the first failure is everybody's") {
  Nodes nodes;
  nodes.come(0, kAll, "");
  nodes.come(2, kAll, "", -3);
  nodes.come(1, kAll, "", -2);
  CHECK(nodes.take() == Said{"0: -2 ", "1: -2 ", "2: -2 "});
}

TEST_CASE("the next round of the same is another one") {
  Nodes nodes;
  nodes.come(0, kAll, "1");
  nodes.come(1, kAll, "1");
  nodes.enter(2, kAll);
  nodes.come(0, kAll, "2");
  nodes.come(1, kAll, "2");
  nodes.part(2, kAll, "1");
  CHECK(nodes.take() == Said{"0: 0 111", "1: 0 111", "2: 0 111"});
  nodes.come(2, kAll, "2");
  CHECK(nodes.take() == Said{"0: 0 222", "1: 0 222", "2: 0 222"});
}

TEST_CASE("collectives of others, or of another kind, do not count") {
  Nodes nodes;
  std::string evens = Collectives::name_of('f', {0, 4});
  std::string odds = Collectives::name_of('f', {1, 3});
  CHECK(evens == "f0,4");
  nodes.come(0, evens, "e");
  nodes.come(0, odds, "o");
  nodes.come(0, Collectives::name_of('c', {0, 4}), "c");
  nodes.come(2, odds, "?");  // none of its ranks takes part
  CHECK(nodes.take().empty());
  nodes.come(1, odds, "O");
  CHECK(nodes.take() == Said{"0: 0 oO", "1: 0 oO"});
  nodes.come(2, evens, "E");
  CHECK(nodes.take() == Said{"0: 0 eE", "2: 0 eE"});
}

TEST_CASE("who has ended is not waited for") {
  Nodes nodes;
  nodes.come(0, kAll, "a");
  nodes.come(2, kAll, "c");
  nodes.ended(2);
  CHECK(nodes.take().empty());
  SECTION("one after the other") { nodes.ended(3); }
  SECTION("with all of its node") { nodes.over(1); }
  CHECK(nodes.take() == Said{"0: 0 ac", "2: 0 ac"});
  nodes.come(0, kAll, "A");
  nodes.come(2, kAll, "C");
  CHECK(nodes.take() == Said{"0: 0 AC", "2: 0 AC"});
}

TEST_CASE("what was given before the end counts") {
  Nodes nodes;
  nodes.come(1, kAll, "b");
  nodes.over(1);
  nodes.come(0, kAll, "a");
  nodes.come(2, kAll, "c");
  CHECK(nodes.take().front() == "0: 0 abc");
}

TEST_CASE("a node whose participants are gone, but not all of its processes, is not waited for") {
  Nodes nodes;
  std::string some = Collectives::name_of('f', {0, 2});
  nodes.ended(2);
  nodes.come(0, some, "a");
  CHECK(nodes.take() == Said{"0: 0 a"});
}

TEST_CASE("names that are none, nodes that are none") {
  Nodes nodes;
  for (const char* name : {"", "f", "fx", "f3-1", "f99"}) nodes.come(0, name, "x");
  nodes.part(7, kAll, "x");
  nodes.over(7);
  CHECK(nodes.take().empty());
}

TEST_CASE("ranks that are added take part in collectives that name them, and not in those of all at the start") {
  Nodes nodes;
  for (auto& each : nodes.nodes) {
    each->add(1, {6});
    each->add(3, {7});
  }
  const std::string spawned = Collectives::name_of('f', {6, 7});
  nodes.come(3, spawned, "b");
  CHECK(nodes.take().empty());
  nodes.come(1, spawned, "a");
  CHECK(nodes.take() == Said{"1: 0 ab", "3: 0 ab"});
  nodes.come(0, kAll, "a");
  nodes.come(1, kAll, "b");
  nodes.come(2, kAll, "c");
  CHECK(nodes.take() == Said{"0: 0 abc", "1: 0 abc", "2: 0 abc"});
  const std::string both = Collectives::name_of('c', {0, 7});
  nodes.come(0, both, "a");
  nodes.over(3);
  CHECK(nodes.take() == Said{"0: 0 a"});
}
