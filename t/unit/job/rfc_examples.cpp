// SPDX-License-Identifier: Apache-2.0
//
// Every example and use case of RFC 14, RFC 20 and RFC 25: their content, as JSON, is in data/vectors.json.
#include <catch2/catch.hpp>

#include "base/file.hpp"
#include "base/json.hpp"
#include "job/distribute.hpp"
#include "job/jobspec.hpp"
#include "job/resources.hpp"

using nacre::job::Jobspec;
using nacre::job::Resources;

namespace {

// JSON, and so YAML too.
std::string text_of(const std::string& name) {
  auto vectors =
      nacre::parse_json(nacre::read_file(NACRE_SOURCE_DIR "/t/unit/job/data/vectors.json").value()).value();
  return nacre::dump_json(vectors.at(name));
}

struct Accepted {
  const char* name;
  std::optional<std::uint32_t> nodes;
  std::optional<std::uint32_t> slots_per_node;
  std::uint32_t slots;
  std::uint32_t cores_per_slot;
  std::uint32_t gpus_per_slot;
  std::uint64_t tasks;
  std::vector<std::string> command;
};

struct Refused {
  const char* name;
  const char* error;  // with version 1
};

}  // namespace

TEST_CASE("the example and the use cases of RFC 25 are read") {
  const auto none = std::nullopt;
  auto want = GENERATE_COPY(Accepted{"example1", 4, 1, 4, 2, 0, 4, {"app"}},                //
                            Accepted{"use_case_1.1", 4, 1, 4, 1, 0, 4, {"flux", "start"}},  //
                            Accepted{"use_case_2.1", 4, 1, 4, 1, 0, 5, {"hostname"}},       //
                            Accepted{"use_case_2.2", none, none, 10, 2, 0, 10, {"myapp"}},  //
                            Accepted{"use_case_2.3", none, none, 10, 2, 1, 10, {"myapp"}},  //
                            Accepted{"use_case_2.4", 4, 4, 16, 1, 1, 16, {"myapp"}});
  INFO(want.name);
  auto spec = Jobspec::parse(text_of(std::string("rfc25/") + want.name));
  REQUIRE(spec.has_value());
  CHECK(spec->version == 1);
  CHECK(spec->nodes == want.nodes);
  CHECK(spec->slots_per_node == want.slots_per_node);
  CHECK(spec->slots == want.slots);
  CHECK(spec->cores_per_slot == want.cores_per_slot);
  CHECK(spec->gpus_per_slot == want.gpus_per_slot);
  CHECK_FALSE(spec->node_exclusive);
  CHECK(spec->tasks() == want.tasks);
  CHECK(spec->command == want.command);
  CHECK(spec->duration == 3600.0);
  CHECK(spec->cwd == "/home/flux");
  CHECK(spec->environment == std::vector<std::pair<std::string, std::string>>{{"HOME", "/home/flux"}});
}

TEST_CASE("RFC 14's use cases say version 999, which is not known") {
  auto number = GENERATE(as<std::string>(), "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "2.1", "2.2",
                         "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9");
  auto spec = Jobspec::parse(text_of("rfc14/use_case_" + number));
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().message == "version: expected 1, got 999");
}

TEST_CASE("what RFC 14 has and version 1 has not is refused by its path") {
  auto want = GENERATE(
      Refused{"example2", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_1.1", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_1.2",
              "resources[0].count: expected a positive integer (version 1 has no ranges), got an object"},
      Refused{"use_case_1.3", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_1.4", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_1.5", "resources: expected one vertex, got 2"},
      Refused{"use_case_1.6", R"(resources[0].type: expected node or slot, got "cluster")"},
      Refused{"use_case_1.7", R"(resources[0].type: expected node or slot, got "switch")"},
      Refused{"use_case_1.8",
              R"(resources[0].count: expected a positive integer (version 1 has no ranges), got "4,9,16,25")"},
      Refused{"use_case_2.1", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_2.2", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_2.4", "resources[0].with: expected one slot, got 2"},
      Refused{"use_case_2.5", R"(resources[0].with[0].type: expected core or gpu, got "memory")"},
      Refused{"use_case_2.6", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_2.7", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_2.8", R"(resources[0].with[0].type: expected core or gpu, got "node")"},
      Refused{"use_case_2.9", R"(resources[0].with[0].type: expected core or gpu, got "node")"});
  INFO(want.name);
  auto document = nacre::job::yaml_to_json(text_of(std::string("rfc14/") + want.name)).value();
  document["version"] = 1;
  auto spec = Jobspec::from_json(document);
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().message == want.error);
}

TEST_CASE("what RFC 14 has and version 1 has too is read") {
  auto example = Jobspec::parse(text_of("rfc14/example1")).value();
  CHECK(example.nodes == 4U);
  CHECK(example.cores_per_slot == 2);
  CHECK(example.tasks() == 4);
  auto document = nacre::job::yaml_to_json(text_of("rfc14/use_case_2.3")).value();
  document["version"] = 1;
  auto spec = Jobspec::from_json(document).value();
  CHECK_FALSE(spec.nodes);
  CHECK(spec.slots == 10);
  CHECK(spec.cores_per_slot == 2);
}

TEST_CASE("the example of RFC 20 is read") {
  auto resources = Resources::parse(text_of("rfc20/example1")).value();
  REQUIRE(resources.nodes.size() == 4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    CHECK(resources.nodes[i].broker_rank == 19 + i);
    CHECK(resources.nodes[i].hostname == "node" + std::to_string(186 + i));
    CHECK(resources.nodes[i].cores.str() == "0-47");
    CHECK(resources.nodes[i].gpus.str() == "0-7");
    CHECK(resources.nodes[i].properties.empty());
  }
  CHECK(resources.starttime == 1676560542.0);
  CHECK(resources.expiration == 1676562342.0);
}

// RFC 20 says of its example: 32 slots, 8 on each node, of 6 cores and 1 gpu.
TEST_CASE("the example of RFC 20 holds the slots that its text gives it") {
  auto resources = Resources::parse(text_of("rfc20/example1")).value();
  Jobspec spec;
  spec.command = {"app"};
  spec.slots = 32;
  spec.cores_per_slot = 6;
  spec.gpus_per_slot = 1;
  auto shares = nacre::job::distribute(spec, resources).value();
  REQUIRE(shares.size() == 4);
  for (const auto& share : shares) {
    CHECK(share.slots == 8);
    CHECK(share.tasks == 8);
  }
  spec.slots = 33;
  CHECK(nacre::job::distribute(spec, resources).error().message ==
        "jobspec asks for 33 slots of 6 cores and 1 gpu; R has room for 32; "
        "node186 has 48 cores and 8 gpus, node187 has 48 cores and 8 gpus, node188 has 48 cores and 8 gpus, and 1 "
        "more: "
        "fewer tasks (-n) or fewer gpus a task (-g)");
}
