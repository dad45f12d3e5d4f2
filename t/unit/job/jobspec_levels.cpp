// SPDX-License-Identifier: Apache-2.0
//
// What jobspecs have of RFC 14 beyond version 1.
#include "catch.hpp"

#include "base/json.hpp"
#include "job/jobspec.hpp"
#include "jobspec_documents.hpp"

using nacre::Json;
using nacre::job::Jobspec;
using namespace nacre::jobspecs;

TEST_CASE("levels above nodes, and between nodes and slots, multiply what is in them") {
  Json document = node_document();
  Json slots = document["resources"][0]["with"];
  Json socket = {{"type", "socket"}, {"count", 3}, {"with", slots}};
  document["resources"][0]["with"] = Json::array({socket});
  Json rack = {{"type", "rack"}, {"count", 5}, {"with", document["resources"]}};
  Json storage = {{"type", "storage"}, {"count", {{"min", 4}}}, {"unit", "GB"}};
  document["resources"] = Json::array({storage, rack});
  auto spec = Jobspec::from_json(document).value();
  CHECK(spec.nodes == 10U);
  CHECK(spec.slots_per_node == 6U);
  CHECK(spec.slots == 60);
  CHECK(error_with(document, "/resources/1/with/0/with/0/count", "2-3") ==
        "resources[1].with[0].with[0].count: expected a positive integer, as the number of slots depends on it, "
        "got \"2-3\"");
  CHECK(error_with(document, "/resources/1/with/0/count", "2-3") ==
        "resources[1].with[0].count: expected a positive integer, got \"2-3\"");
}

TEST_CASE("cores within the sockets of a slot; what else a slot has is of no effect") {
  Json document = slot_document();
  document["resources"][0]["with"] = Json::parse(R"([{"type": "memory", "count": {"min": 4}, "unit": "GB"},
    {"type": "socket", "count": 2, "with": [{"type": "core", "count": 4}, {"type": "gpu", "count": 1}]}])");
  auto spec = Jobspec::from_json(document).value();
  CHECK(spec.cores_per_slot == 8);
  CHECK(spec.gpus_per_slot == 2);
}

TEST_CASE("a slot that is a whole node") {
  Json document = slot_document();
  document["resources"][0]["with"] = Json::parse(R"([{"type": "node", "count": 1}])");
  auto spec = Jobspec::from_json(document).value();
  CHECK(spec.nodes == 2U);
  CHECK(spec.slots_per_node == 1U);
  CHECK(spec.slots == 2);
  CHECK(spec.cores_per_slot == 1);
  CHECK(spec.node_exclusive);
}

TEST_CASE("a count that is a range of RFC 14 is the least until R is known") {
  Json document = node_document();
  document["resources"][0]["count"] = {{"min", 2}, {"max", 8}, {"operator", "*"}, {"operand", 2}};
  document["resources"][0]["with"][0]["with"][0]["count"] = "2-4";
  auto spec = Jobspec::from_json(document).value();
  CHECK(spec.nodes == 2U);
  REQUIRE(spec.node_counts);
  CHECK(spec.node_counts->contains(8));
  CHECK_FALSE(spec.node_counts->contains(6));
  CHECK(spec.cores_per_slot == 2);
  CHECK_FALSE(spec.slot_counts);
}

TEST_CASE("tasks for each core or gpu of a slot") {
  Json document = slot_document();
  document["tasks"][0]["count"] = {{"per_resource", {{"type", "core"}, {"count", 2}}}};
  CHECK(Jobspec::from_json(document).value().tasks() == 12);
  CHECK(error_with(slot_document(), "/tasks/0/count", {{"per_resource", {{"type", "gpu"}, {"count", 1}}}}) ==
        "tasks[0].count.per_resource.type: expected core or gpu, of which a slot has some, got \"gpu\"");
}
