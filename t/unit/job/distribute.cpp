// SPDX-License-Identifier: Apache-2.0
#include "job/job.hpp"

#include "catch.hpp"

using nacre::Json;
using nacre::job::distribute;
using nacre::job::Jobspec;
using nacre::job::NodeShare;
using nacre::job::PerResource;
using nacre::job::Resources;
using nacre::value::Idset;

namespace {

using Counts = std::vector<std::uint32_t>;

// A node with cores[i] cores and gpus[i] gpus for each i.
Resources nodes_with(const Counts& cores, const Counts& gpus = {}) {
  Resources resources;
  for (std::uint32_t i = 0; i < cores.size(); ++i) {
    nacre::job::NodeResources node;
    node.broker_rank = i;
    if (cores[i] > 0) node.cores = Idset::range(0, cores[i] - 1);
    if (i < gpus.size() && gpus[i] > 0) node.gpus = Idset::range(0, gpus[i] - 1);
    resources.nodes.push_back(std::move(node));
  }
  return resources;
}

Jobspec slots_of(std::uint32_t slots, std::uint32_t cores_per_slot = 1, std::uint32_t gpus_per_slot = 0) {
  Jobspec spec;
  spec.command = {"app"};
  spec.slots = slots;
  spec.cores_per_slot = cores_per_slot;
  spec.gpus_per_slot = gpus_per_slot;
  return spec;
}

Jobspec on_nodes(std::uint32_t nodes, std::uint32_t slots_per_node, std::uint32_t cores_per_slot = 1) {
  Jobspec spec = slots_of(nodes * slots_per_node, cores_per_slot);
  spec.nodes = nodes;
  spec.slots_per_node = slots_per_node;
  return spec;
}

Jobspec total(Jobspec spec, std::uint32_t tasks) {
  spec.count = Jobspec::Count::total;
  spec.count_value = tasks;
  return spec;
}

Jobspec per_slot(Jobspec spec, std::uint32_t tasks) {
  spec.count_value = tasks;
  return spec;
}

Counts tasks_of(const nacre::Result<std::vector<NodeShare>>& shares) {
  Counts out;
  for (const NodeShare& share : shares.value()) out.push_back(share.tasks);
  return out;
}

Counts slots_in(const nacre::Result<std::vector<NodeShare>>& shares) {
  Counts out;
  for (const NodeShare& share : shares.value()) out.push_back(share.slots);
  return out;
}

std::string error_of(const Jobspec& spec, const Resources& resources) {
  auto shares = distribute(spec, resources);
  return shares ? "accepted" : shares.error().message;
}

const Counts k8r1c = {1, 1, 1, 1, 1, 1, 1, 1};
const Counts k4r4c4r1c = {4, 4, 4, 4, 1, 1, 1, 1};

}  // namespace

// ---- the vectors of flux-core's t2600-job-shell-rcalc ----------------------

TEST_CASE("tasks with a core each go where flux-shell puts them") {
  auto counts = [](const Counts& cores, std::uint32_t tasks) {
    return tasks_of(distribute(slots_of(tasks), nodes_with(cores)));
  };
  CHECK(counts({1}, 1) == Counts{1});
  CHECK(counts({2}, 1) == Counts{1});
  CHECK(counts({2}, 2) == Counts{2});
  CHECK(counts(k8r1c, 4) == Counts{1, 1, 1, 1, 0, 0, 0, 0});
  CHECK(counts(k8r1c, 8) == Counts{1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(counts(k4r4c4r1c, 4) == Counts{1, 1, 1, 1, 0, 0, 0, 0});
  CHECK(counts(k4r4c4r1c, 8) == Counts{1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(counts(k4r4c4r1c, 9) == Counts{2, 1, 1, 1, 1, 1, 1, 1});
  CHECK(counts(k4r4c4r1c, 16) == Counts{3, 3, 3, 3, 1, 1, 1, 1});
  CHECK(counts(k4r4c4r1c, 20) == Counts{4, 4, 4, 4, 1, 1, 1, 1});
  CHECK(counts({2, 8}, 10) == Counts{2, 8});
  CHECK(error_of(slots_of(9), nodes_with(k8r1c)) == "jobspec asks for 9 slots of 1 core; R has room for 8");
}

TEST_CASE("slots of five cores do not straddle nodes") {
  CHECK(tasks_of(distribute(slots_of(5, 5), nodes_with({15, 15}))) == Counts{3, 2});
}

TEST_CASE("gpus of R that no slot asks for change nothing") {
  CHECK(tasks_of(distribute(slots_of(1), nodes_with({1}, {2}))) == Counts{1});
}

TEST_CASE("ranks of R in another order get the same tasks") {
  auto resources = Resources::parse(R"({"version": 1, "execution": {"R_lite": [
    {"rank": "1", "children": {"core": "0-7"}}, {"rank": "0", "children": {"core": "0-1"}}],
    "starttime": 0, "expiration": 0, "nodelist": ["f[0-1]"]}})")
                       .value();
  CHECK(tasks_of(distribute(slots_of(10), resources)) == Counts{2, 8});
}

TEST_CASE("per-resource counts tasks by core or node, as flux-shell does") {
  auto counts = [](const Counts& cores, PerResource::Type type, std::uint32_t count) {
    return tasks_of(distribute(slots_of(1), nodes_with(cores), PerResource{type, count}));
  };
  constexpr auto kCore = PerResource::Type::core;
  constexpr auto kNode = PerResource::Type::node;
  CHECK(counts({1}, kCore, 1) == Counts{1});
  CHECK(counts({1}, kCore, 2) == Counts{2});
  CHECK(counts({1}, kNode, 1) == Counts{1});
  CHECK(counts({1}, kNode, 2) == Counts{2});
  CHECK(counts({2}, kCore, 1) == Counts{2});
  CHECK(counts({2}, kCore, 2) == Counts{4});
  CHECK(counts({2}, kNode, 1) == Counts{1});
  CHECK(counts({2}, kNode, 2) == Counts{2});
  CHECK(counts(k4r4c4r1c, kCore, 1) == Counts{4, 4, 4, 4, 1, 1, 1, 1});
  CHECK(counts(k4r4c4r1c, kCore, 2) == Counts{8, 8, 8, 8, 2, 2, 2, 2});
  CHECK(counts(k4r4c4r1c, kNode, 1) == Counts(8, 1));
  CHECK(counts(k4r4c4r1c, kNode, 2) == Counts(8, 2));
  CHECK(counts(k8r1c, kCore, 1) == Counts(8, 1));
  CHECK(counts(k8r1c, kCore, 2) == Counts(8, 2));
  CHECK(counts(k8r1c, kNode, 1) == Counts(8, 1));
  CHECK(counts(k8r1c, kNode, 2) == Counts(8, 2));
}

// flux-shell puts two of these on the first node (its "distribute can oversubscribe").
TEST_CASE("a slot for which there are no cores is an error here") {
  CHECK(error_of(slots_of(3, 8), nodes_with({8, 8})) == "jobspec asks for 3 slots of 8 cores; R has room for 2");
}

// ---- slots -----------------------------------------------------------------

TEST_CASE("a node offers whole slots only") {
  CHECK(slots_in(distribute(slots_of(3, 2), nodes_with({3, 5}))) == Counts{1, 2});
  CHECK(error_of(slots_of(4, 2), nodes_with({3, 5})) == "jobspec asks for 4 slots of 2 cores; R has room for 3");
  CHECK(error_of(slots_of(1, 9), nodes_with({8, 8})) == "jobspec asks for 1 slot of 9 cores; R has room for 0");
}

TEST_CASE("a node offers no more slots than it has gpus for") {
  CHECK(slots_in(distribute(slots_of(3, 1, 2), nodes_with({8, 8}, {2, 5}))) == Counts{1, 2});
  CHECK(error_of(slots_of(4, 1, 2), nodes_with({8, 8}, {2, 5})) ==
        "jobspec asks for 4 slots of 1 core and 2 gpus; R has room for 3");
  CHECK(error_of(slots_of(1, 1, 1), nodes_with({8})) ==
        "jobspec asks for 1 slot of 1 core and 1 gpu; R has room for 0");
}

TEST_CASE("nodes that are asked for get the slots that are asked for") {
  CHECK(slots_in(distribute(on_nodes(2, 3), nodes_with({8, 8}))) == Counts{3, 3});
  CHECK(slots_in(distribute(on_nodes(2, 2, 2), nodes_with({4, 3, 8, 8}))) == Counts{2, 0, 2, 0});
  CHECK(error_of(on_nodes(3, 1), nodes_with({8, 8})) == "jobspec asks for 3 nodes; R has 2");
  CHECK(error_of(on_nodes(2, 2, 2), nodes_with({8, 3, 3})) ==
        "jobspec asks for 2 nodes with 2 slots of 2 cores each; R has 1 such");
}

TEST_CASE("exclusive nodes have more cores, not more slots") {
  Jobspec spec = on_nodes(2, 1);
  spec.node_exclusive = true;
  CHECK(slots_in(distribute(spec, nodes_with({64, 64}))) == Counts{1, 1});
  CHECK(tasks_of(distribute(spec, nodes_with({64, 64}))) == Counts{1, 1});
}

// ---- tasks -----------------------------------------------------------------

TEST_CASE("per_slot tasks on each slot") {
  CHECK(tasks_of(distribute(per_slot(slots_of(3), 4), nodes_with({1, 4}))) == Counts{4, 8});
  CHECK(tasks_of(distribute(per_slot(on_nodes(2, 2), 3), nodes_with({2, 2}))) == Counts{6, 6});
}

// RFC 25, use case 2.1: 5 tasks on 4 nodes with a slot each.
TEST_CASE("more tasks than slots go round the slots") {
  CHECK(tasks_of(distribute(total(on_nodes(4, 1), 5), nodes_with({1, 1, 1, 1}))) == Counts{2, 1, 1, 1});
  CHECK(tasks_of(distribute(total(slots_of(4), 9), nodes_with({1, 3}))) == Counts{3, 6});
  CHECK(tasks_of(distribute(total(slots_of(4), 10), nodes_with({1, 3}))) == Counts{3, 7});
  CHECK(tasks_of(distribute(total(slots_of(4), 11), nodes_with({1, 3}))) == Counts{3, 8});
  CHECK(tasks_of(distribute(total(slots_of(4), 12), nodes_with({1, 3}))) == Counts{3, 9});
}

TEST_CASE("fewer tasks than slots go round the nodes") {
  CHECK(tasks_of(distribute(total(on_nodes(4, 2), 5), nodes_with({2, 2, 2, 2}))) == Counts{2, 1, 1, 1});
  CHECK(tasks_of(distribute(total(on_nodes(4, 2), 3), nodes_with({2, 2, 2, 2}))) == Counts{1, 1, 1, 0});
  CHECK(tasks_of(distribute(total(slots_of(20), 16), nodes_with(k4r4c4r1c))) == Counts{3, 3, 3, 3, 1, 1, 1, 1});
}

// Compares with a distribution of one task at a time.
TEST_CASE("the counts are those of dealing one at a time") {
  auto one_by_one = [](std::uint64_t count, const Counts& room) {
    Counts out(room.size(), 0);
    for (std::uint32_t round = 1; count > 0; ++round) {
      for (std::size_t i = 0; i < room.size() && count > 0; ++i) {
        if (room[i] < round) continue;
        ++out[i];
        --count;
      }
    }
    return out;
  };
  std::uint32_t state = 1;
  auto random = [&state](std::uint32_t limit) { return (state = state * 1664525 + 1013904223) / 65536 % limit; };
  for (int i = 0; i < 500; ++i) {
    Counts cores(1 + random(9));
    for (std::uint32_t& each : cores) each = random(12);
    std::uint32_t room = std::accumulate(cores.begin(), cores.end(), 0U);
    if (room == 0) continue;
    std::uint32_t slots = 1 + random(room);
    std::uint32_t tasks = 1 + random(3 * slots);
    auto shares = distribute(total(slots_of(slots), tasks), nodes_with(cores));
    Counts expected_slots = one_by_one(slots, cores);
    REQUIRE(slots_in(shares) == expected_slots);
    Counts expected = one_by_one(tasks % slots, expected_slots);
    for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += tasks / slots * expected_slots[k];
    REQUIRE(tasks_of(shares) == expected);
  }
}

TEST_CASE("large jobs are distributed without walking their tasks") {
  auto shares = distribute(total(slots_of(1), Jobspec::kMaxCount), nodes_with({1})).value();
  CHECK(shares[0].tasks == Jobspec::kMaxCount);
  auto wide = distribute(slots_of(6400000), nodes_with(Counts(100000, 64))).value();
  CHECK(wide.front().tasks == 64);
  CHECK(wide.back().tasks == 64);
}

// ---- the option per-resource -----------------------------------------------

TEST_CASE("per-resource leaves the slots alone, and counts nodes that have none") {
  auto shares = distribute(on_nodes(1, 2), nodes_with({4, 4}), PerResource{PerResource::Type::node, 3});
  CHECK(slots_in(shares) == Counts{2, 0});
  CHECK(tasks_of(shares) == Counts{3, 3});
}

TEST_CASE("per-resource cannot make more tasks than a job may have") {
  PerResource most{PerResource::Type::node, Jobspec::kMaxCount};
  CHECK(distribute(slots_of(1), nodes_with({1}), most).value()[0].tasks == Jobspec::kMaxCount);
  CHECK(distribute(slots_of(1), nodes_with({1, 1}), most).error().message ==
        "per-resource: 33554432 tasks in all; at most 16777216");
  CHECK(distribute(slots_of(1), nodes_with({65536}), PerResource{PerResource::Type::core, 257}).error().message ==
        "per-resource: 16842752 tasks in all; at most 16777216");
}

TEST_CASE("per-resource is read from its option") {
  auto read = [](const char* text) { return PerResource::from_json(Json::parse(text)); };
  auto core = read(R"({"type": "core", "count": 2})").value();
  CHECK(core.type == PerResource::Type::core);
  CHECK(core.count == 2);
  auto node = read(R"({"type": "node"})").value();
  CHECK(node.type == PerResource::Type::node);
  CHECK(node.count == 1);
  CHECK(read("1").error().message == "per-resource: expected an object, got 1");
  CHECK(read(R"({"count": 1})").error().message == "per-resource: missing key 'type'");
  CHECK(read(R"({"type": "gpu"})").error().message == "per-resource.type: expected core or node, got \"gpu\"");
  CHECK(read(R"({"type": 1})").error().message == "per-resource.type: expected a string, got 1");
  CHECK(read(R"({"type": "node", "count": 0})").error().message ==
        "per-resource.count: expected an integer from 1 to 16777216, got 0");
  CHECK(read(R"({"type": "node", "counts": 2})").error().message ==
        "per-resource.counts: unknown key; known: type, count");
}

TEST_CASE("with oversubscribe what the cores hold is dealt first, and the rest to all nodes alike") {
  auto shared = [](const Jobspec& spec, const Counts& cores, const Counts& gpus = {}) {
    return slots_in(distribute(spec, nodes_with(cores, gpus), std::nullopt, true));
  };
  CHECK(shared(slots_of(3), {4, 1}) == slots_in(distribute(slots_of(3), nodes_with({4, 1}))));
  CHECK(shared(slots_of(5), {4, 1}) == Counts{4, 1});
  CHECK(shared(slots_of(9), {4, 1}) == Counts{6, 3});
  CHECK(shared(slots_of(3, 4), {2, 2}) == Counts{2, 1});
  CHECK(shared(on_nodes(2, 5), {1, 8}) == Counts{5, 5});
  CHECK(shared(slots_of(3, 1, 1), {1, 1}, {2, 1}) == Counts{2, 1});
  auto refused = distribute(slots_of(4, 1, 1), nodes_with({1, 1}, {2, 1}), std::nullopt, true);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "jobspec asks for 4 slots of 1 core and 1 gpu; R has room for 3");
}

TEST_CASE("what hosts have, and the remedy, is told of the first ones") {
  auto refused = [](const Jobspec& spec, Resources resources) {
    for (auto& node : resources.nodes) node.hostname = "n" + std::to_string(node.broker_rank);
    return distribute(spec, resources).error().message;
  };
  CHECK(refused(slots_of(4, 2), nodes_with({2, 1})) ==
        "jobspec asks for 4 slots of 2 cores; R has room for 1; n0 has 2 cores, n1 has 1 core: fewer tasks (-n), "
        "fewer "
        "cores a task (-c), or --oversubscribe");
  CHECK(refused(slots_of(1, 1, 2), nodes_with({8, 8}, {0, 1})) ==
        "jobspec asks for 1 slot of 1 core and 2 gpus; R has room for 0; n0 has 8 cores and 0 gpus, n1 has 8 cores "
        "and 1 "
        "gpu: fewer tasks (-n) or fewer gpus a task (-g)");
  CHECK(refused(on_nodes(5, 2), nodes_with({1, 1, 1, 1, 1}))
            .find("; n0 has 1 core, n1 has 1 core, n2 has 1 core, and 2 more: fewer tasks") != std::string::npos);
}

TEST_CASE("who shares cores is told of the first node where it is so") {
  Resources resources = nodes_with({4, 1});
  resources.nodes[1].hostname = "n1";
  auto text = [&](const Jobspec& spec) {
    return sharing_text(spec, resources, distribute(spec, resources, std::nullopt, true).value());
  };
  CHECK(text(slots_of(5)).empty());
  CHECK(text(slots_of(8)) == "6 tasks share 4 cores");
  CHECK(text(on_nodes(2, 2)) == "2 tasks share 1 core on n1");
}

TEST_CASE("oversubscribe is a switch, or share") {
  using nacre::JsonAt;
  using nacre::job::Oversubscribe;
  auto read = [](const Json& json) { return nacre::job::oversubscribe_of(JsonAt::root(json, "oversubscribe")); };
  CHECK(read(1).value() == Oversubscribe::yes);
  CHECK(read(false).value() == Oversubscribe::no);
  CHECK(read("share").value() == Oversubscribe::share);
  CHECK(read(Json::array()).error().message.starts_with("oversubscribe: expected true, false or share, got "));
}
