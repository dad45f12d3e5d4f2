// SPDX-License-Identifier: Apache-2.0
//
// Every example and use case of RFC 14, RFC 20 and RFC 25: their content, as JSON, is in data/vectors.json.
#include "catch.hpp"

#include "base/file.hpp"
#include "job/job.hpp"
#include "job/jobspec.hpp"
#include "job/resources.hpp"

using nacre::job::Jobspec;
using nacre::job::Resources;

namespace {

// The text is JSON, and thus also YAML.
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

void check(const Jobspec& spec, const Accepted& want) {
  CHECK(spec.nodes == want.nodes);
  CHECK(spec.slots_per_node == want.slots_per_node);
  CHECK(spec.slots == want.slots);
  CHECK(spec.cores_per_slot == want.cores_per_slot);
  CHECK(spec.gpus_per_slot == want.gpus_per_slot);
  CHECK(spec.tasks() == want.tasks);
  CHECK(spec.command == want.command);
}

struct Refused {
  const char* name;
  const char* error;
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
  check(*spec, want);
  CHECK_FALSE(spec->node_exclusive);
  CHECK(spec->duration == 3600.0);
  CHECK(spec->cwd == "/home/flux");
  CHECK(spec->environment == std::vector<std::pair<std::string, std::string>>{{"HOME", "/home/flux"}});
}

TEST_CASE("the use cases of RFC 14 with one slot and one task are read") {
  const auto none = std::nullopt;
  const std::vector<std::string> start{"flux", "start"};
  auto want = GENERATE_COPY(
      Accepted{"example2", 4, 1, 4, 1, 0, 4, {"hostname"}},  //
      Accepted{"use_case_1.1", 4, 1, 4, 1, 0, 4, start},     //
      Accepted{"use_case_1.2", none, none, 3, 1, 0, 3, start}, Accepted{"use_case_1.3", 4, 1, 4, 8, 0, 4, start},
      Accepted{"use_case_1.4", 4, 1, 4, 8, 0, 4, start}, Accepted{"use_case_1.8", none, none, 4, 1, 0, 4, start},
      Accepted{"use_case_2.1", 4, 1, 4, 1, 0, 20, {"hostname"}},
      Accepted{"use_case_2.2", 4, 1, 4, 1, 0, 5, {"hostname"}},
      Accepted{"use_case_2.3", none, none, 10, 2, 0, 10, {"myapp"}},
      Accepted{"use_case_2.5", none, none, 10, 1, 0, 10, {"app"}},
      Accepted{"use_case_2.6", 2, 1, 2, 1, 0, 10, {"app"}}, Accepted{"use_case_2.8", 1, 1, 1, 1, 0, 1, start},
      Accepted{"use_case_2.9", 1, 1, 1, 1, 0, 1, start});
  INFO(want.name);
  auto spec = Jobspec::parse(text_of(std::string("rfc14/") + want.name));
  REQUIRE(spec.has_value());
  check(*spec, want);
}

TEST_CASE("what a shell cannot do of RFC 14 is refused by its path") {
  const char* per_node =
      "tasks[0].count.per_resource.type: expected core or gpu, of which a slot has some, got \"node\"";
  auto want = GENERATE_COPY(
      Refused{"use_case_1.5", "resources: expected one slot, got 2; the option multi-prog runs several programs"},
      Refused{"use_case_1.6", per_node}, Refused{"use_case_1.7", per_node},
      Refused{"use_case_2.4", "resources: expected one slot, got 2; the option multi-prog runs several programs"},
      Refused{"use_case_2.7", "tasks: expected one task, got 2; the option multi-prog runs several programs"});
  INFO(want.name);
  auto spec = Jobspec::parse(text_of(std::string("rfc14/") + want.name));
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().message == want.error);
}

TEST_CASE("a number of slots that the jobspec leaves open is R's") {
  auto spec = Jobspec::parse(text_of("rfc14/use_case_1.8")).value();
  auto resources = Resources::parse(R"({"version": 1, "execution": {"nodelist": ["n[0-8]"], "nslots": 9,
    "R_lite": [{"rank": "0-8", "children": {"core": "0-1"}}]}})")
                       .value();
  auto job = nacre::job::Job::create(nacre::value::JobId(1), 0, spec, resources, std::nullopt).value();
  CHECK(job.tasks() == 9);
  resources.slots = 8;
  CHECK(nacre::job::Job::create(nacre::value::JobId(1), 0, spec, resources, std::nullopt).error().message ==
        "R has 8 slots, which is not a number of them that the jobspec asks for");
  resources.slots.reset();
  CHECK(nacre::job::Job::create(nacre::value::JobId(1), 0, spec, resources, std::nullopt).error().message ==
        "the jobspec leaves the number of slots open; R has to have it as execution.nslots");
}

TEST_CASE("a number of nodes that the jobspec leaves open is R's") {
  auto spec = Jobspec::parse(R"({"version": 1, "resources": [{"type": "node", "count": "2-4", "with": [
    {"type": "slot", "count": 2, "label": "x", "with": [{"type": "core", "count": 1}]}]}],
    "tasks": [{"command": ["app"], "slot": "x", "count": {"per_slot": 1}}], "attributes": {}})")
                  .value();
  auto tasks_on = [&spec](const std::string& ranks) {
    auto resources = Resources::parse(R"({"version": 1, "execution": {"R_lite": [{"rank": ")" + ranks +
                                      R"(", "children": {"core": "0-1"}}]}})")
                         .value();
    auto job = nacre::job::Job::create(nacre::value::JobId(1), 0, spec, resources, std::nullopt);
    return job ? std::to_string(job->tasks()) : job.error().message;
  };
  CHECK(tasks_on("0-2") == "6");
  CHECK(tasks_on("0-3") == "8");
  CHECK(tasks_on("0-4") == "R has 5 nodes, which is not a number of them that the jobspec asks for");
  CHECK(tasks_on("0") == "R has 1 nodes, which is not a number of them that the jobspec asks for");
}

TEST_CASE("what RFC 14 has and version 1 has too is read") {
  auto example = Jobspec::parse(text_of("rfc14/example1")).value();
  CHECK(example.nodes == 4U);
  CHECK(example.cores_per_slot == 2);
  CHECK(example.tasks() == 4);
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
