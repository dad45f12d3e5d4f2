// SPDX-License-Identifier: Apache-2.0
#include "job/machine_shape.hpp"

#include "catch.hpp"

#include "base/json.hpp"
#include "job/resources.hpp"

using nacre::job::MachineShape;

TEST_CASE("shapes of machines", "[machine_shape]") {
  CHECK(MachineShape::parse("64x4c2g").value() == MachineShape{64, 1, 4, 1, 2});
  CHECK(MachineShape::parse("8x2p16c2t4g").value() == MachineShape{8, 2, 16, 2, 4});
  CHECK(MachineShape::parse("1x1c").value() == MachineShape{1, 1, 1, 1, 0});
  CHECK(MachineShape::parse("1024x16p1024c8t64g").value().nodes == MachineShape::kMaxNodes);
  CHECK(MachineShape::parse("2x1c1g").value() == MachineShape{2, 1, 1, 1, 1});
  CHECK(MachineShape::parse("3x2p1c").value() == MachineShape{3, 2, 1, 1, 0});
}

TEST_CASE("what is no shape: where, and what was expected there", "[machine_shape]") {
  auto fails = [](const char* text, const std::string& place, const std::string& why) {
    auto parsed = MachineShape::parse(text);
    REQUIRE_FALSE(parsed);
    INFO(parsed.error().message);
    CHECK(parsed.error().message.find("at character " + place + ": " + why) != std::string::npos);
    CHECK(parsed.error().message.find("64x4c2g") != std::string::npos);
  };
  fails("", "1", "expected the number of nodes");
  fails("x4c", "1", "expected the number of nodes");
  fails("64", "3", "expected 'x' behind the number of nodes");
  fails("1025x4c", "1", "expected 1 to 1024 nodes");
  fails("0x4c", "1", "expected 1 to 1024 nodes");
  fails("99999999999999999999x4c", "1", "expected 1 to 1024 nodes");
  fails("4x", "3", "expected the number of cores");
  fails("4x2g", "4", "expected 'c' behind the number of cores");
  fails("4x17p4c", "3", "expected 1 to 16 packages");
  fails("4x1025c", "3", "expected 1 to 1024 cores");
  fails("4x4c9t", "5", "expected 1 to 8 threads");
  fails("4x4c65g", "5", "expected 0 to 64 gpus");
  fails("4x4c2g1t", "7", "expected nothing more");
  fails("4x4c2", "5", "expected nothing more");
  fails("-4x4c", "1", "expected the number of nodes");
}

TEST_CASE("the R of a made-up machine", "[machine_shape]") {
  MachineShape shape = MachineShape::parse("8x2p2c1g").value();
  auto resources = nacre::job::Resources::from_json(shape.resources(3)).value();
  REQUIRE(resources.nodes.size() == 3);
  CHECK(resources.nodes[2].hostname == "pretend2");
  CHECK(resources.nodes[2].cores.str() == "0-3");
  CHECK(resources.nodes[2].gpus.str() == "0");
  CHECK(nacre::job::Resources::from_json(shape.resources(1)).value().nodes[0].hostname == "pretend0");
  CHECK(shape.synthetic() == "package:2 [numa] core:2 pu:1");
  CHECK(shape.node_words() == "2 packages of 2 cores and 1 gpu");
  CHECK(MachineShape::parse("1x4c2t").value().node_words() == "4 cores of 2 threads and no gpus");
}
