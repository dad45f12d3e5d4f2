// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "job/jobspec.hpp"

using nacre::Json;
using nacre::JsonAt;
using nacre::job::CountRange;
using nacre::job::Jobspec;

namespace {

Json slot_document() {
  return Json::parse(R"({
    "version": 1,
    "resources": [{"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": 3}]}],
    "tasks": [{"command": ["app", "-x", ""], "slot": "task", "count": {"per_slot": 1}}],
    "attributes": {"system": {"duration": 0}}
  })");
}

Json node_document() {
  Json document = slot_document();
  Json slot = document["resources"][0];
  document["resources"][0] = {{"type", "node"}, {"count", 2}, {"with", Json::array({slot})}};
  return document;
}

// The error of a document, changed at one place.
std::string error_with(Json document, const char* pointer, Json value) {
  document[Json::json_pointer(pointer)] = std::move(value);
  auto spec = Jobspec::from_json(std::move(document));
  return spec ? "accepted" : spec.error().message;
}

std::string error_with(const char* pointer, Json value) {
  return error_with(slot_document(), pointer, std::move(value));
}

std::string error_without(const char* parent, const char* key) {
  Json document = slot_document();
  document[Json::json_pointer(parent)].erase(key);
  auto spec = Jobspec::from_json(std::move(document));
  return spec ? "accepted" : spec.error().message;
}

std::string parse_error(std::string_view text) {
  auto spec = Jobspec::parse(text);
  return spec ? "accepted" : spec.error().message;
}

}  // namespace

// ---- what is read ----------------------------------------------------------

TEST_CASE("slots without nodes") {
  auto spec = Jobspec::from_json(slot_document()).value();
  CHECK_FALSE(spec.nodes);
  CHECK_FALSE(spec.slots_per_node);
  CHECK(spec.slots == 2);
  CHECK(spec.cores_per_slot == 3);
  CHECK(spec.gpus_per_slot == 0);
  CHECK(spec.command == std::vector<std::string>{"app", "-x", ""});
  CHECK(spec.count == Jobspec::Count::per_slot);
  CHECK(spec.tasks() == 2);
  CHECK(spec.duration == 0);
  CHECK_FALSE(spec.cwd);
  CHECK(spec.environment.empty());
  CHECK(spec.options == Json::object());
  CHECK(spec.document == slot_document());
}

TEST_CASE("slots on nodes") {
  Json document = node_document();
  document["resources"][0]["exclusive"] = true;
  document["resources"][0]["unit"] = "node";
  document["resources"][0]["with"][0]["with"].push_back({{"type", "gpu"}, {"count", 4}});
  auto spec = Jobspec::from_json(document).value();
  CHECK(spec.nodes == 2U);
  CHECK(spec.slots_per_node == 2U);
  CHECK(spec.slots == 4);
  CHECK(spec.gpus_per_slot == 4);
  CHECK(spec.node_exclusive);
  CHECK(spec.tasks() == 4);
}

TEST_CASE("tasks: more than one a slot, more and fewer than slots in all") {
  Json document = slot_document();
  document["tasks"][0]["count"] = {{"per_slot", 7}};
  CHECK(Jobspec::from_json(document).value().tasks() == 14);
  document["tasks"][0]["count"] = {{"total", 9}};
  auto spec = Jobspec::from_json(document).value();
  CHECK(spec.count == Jobspec::Count::total);
  CHECK(spec.tasks() == 9);
  document["tasks"][0]["count"] = {{"total", 1}};
  CHECK(Jobspec::from_json(document).value().tasks() == 1);
}

TEST_CASE("attributes.system") {
  Json document = slot_document();
  document["attributes"] = Json::parse(R"({"user": {"mine": 1}, "system": {
    "duration": 1.5, "cwd": "/tmp", "queue": "batch", "constraints": {"properties": ["x"]},
    "environment": {"B": "2", "A": "", "GONE": null},
    "shell": {"options": {"verbose": 1, "oom": {"adjust": 5}}}}})");
  auto spec = Jobspec::from_json(document).value();
  CHECK(spec.duration == 1.5);
  CHECK(spec.cwd == "/tmp");
  CHECK(spec.environment == std::vector<std::pair<std::string, std::string>>{{"A", ""}, {"B", "2"}});
  CHECK(spec.options == Json::parse(R"({"verbose": 1, "oom": {"adjust": 5}})"));
}

TEST_CASE("attributes may be null or empty, but must be there") {
  CHECK(error_with("/attributes", nullptr) == "accepted");
  CHECK(error_with("/attributes", Json::object()) == "accepted");
  CHECK(error_with("/attributes/system", Json::object()) == "accepted");
  CHECK(error_without("", "attributes") == "missing key 'attributes'");
}

TEST_CASE("JSON, YAML, and YAML that looks like JSON give the same jobspec") {
  const char* yaml = R"(# a comment
version: 1
resources: [{type: slot, count: 2, label: task, with: [{type: core, count: 3}]}]
tasks:
- {command: [app, -x, ''], slot: task, count: {per_slot: 1}}
attributes: {system: {duration: 0}}
)";
  const char* flow = R"(  {version: 1, resources: [{type: slot, count: 2, label: task,
    with: [{type: core, count: 3}]}], tasks: [{command: [app, -x, ''], slot: task, count: {per_slot: 1}}],
    attributes: {system: {duration: 0}}})";
  CHECK(Jobspec::parse("\n " + slot_document().dump(2) + "\n").value().document == slot_document());
  CHECK(Jobspec::parse(yaml).value().document == slot_document());
  CHECK(Jobspec::parse(flow).value().document == slot_document());
}

// ---- texts that are no jobspec ---------------------------------------------

TEST_CASE("a text that is neither JSON nor YAML") {
  CHECK(parse_error("{\"version\": 1 2") ==
        "not JSON: line 1, column 15: unexpected number literal; expected '}'; YAML: line 1, column 1: "
        "end of map flow not found");
  CHECK(parse_error("version: 1\n  tasks: [").find("YAML: line 2, column 8: ") == 0);
  CHECK(parse_error("a: \"b").find("YAML: line 1, column ") == 0);
  CHECK(parse_error(std::string(100000, '{')).find("not JSON: line 1, column 2: ") == 0);
  CHECK(parse_error(std::string(100000, '[')).find(": nested deeper than 128 levels") != std::string::npos);
}

TEST_CASE("a text that is YAML by chance is still said to be no JSON") {
  CHECK(parse_error("{\"version\": }").find("not JSON: line 1, column 13: ") == 0);
  CHECK(parse_error("{\"version\": }").find("; as YAML: missing key 'version'") != std::string::npos);
}

TEST_CASE("a text that is no object") {
  CHECK(parse_error("") == "expected an object, got null");
  CHECK(parse_error("hello") == "expected an object, got \"hello\"");
  CHECK(parse_error("[1, 2]") == "expected an object, got an array");
  CHECK(parse_error("{}") == "missing key 'version'");
}

TEST_CASE("versions") {
  CHECK(error_with("/version", 2) == "version: expected 1, got 2");
  CHECK(error_with("/version", 0) == "version: expected 1, got 0");
  CHECK(error_with("/version", 1.0) == "version: expected an integer, got 1.0");
  CHECK(error_with("/version", "1") == "version: expected an integer, got \"1\"");
  CHECK(error_with("/version", nullptr) == "missing key 'version'");
}

TEST_CASE("missing keys are named, with the path of what lacks them") {
  CHECK(error_without("", "version") == "missing key 'version'");
  CHECK(error_without("", "resources") == "missing key 'resources'");
  CHECK(error_without("", "tasks") == "missing key 'tasks'");
  CHECK(error_without("/resources/0", "type") == "resources[0]: missing key 'type'");
  CHECK(error_without("/resources/0", "count") == "resources[0]: missing key 'count'");
  CHECK(error_without("/resources/0", "label") == "resources[0]: missing key 'label'");
  CHECK(error_without("/resources/0", "with") == "resources[0]: missing key 'with'");
  CHECK(error_without("/resources/0/with/0", "count") == "resources[0].with[0]: missing key 'count'");
  CHECK(error_without("/tasks/0", "command") == "tasks[0]: missing key 'command'");
  CHECK(error_without("/tasks/0", "slot") == "tasks[0]: missing key 'slot'");
  CHECK(error_without("/tasks/0", "count") == "tasks[0]: missing key 'count'");
}

// ---- resources -------------------------------------------------------------

TEST_CASE("counts") {
  const char* at = "/resources/0/count";
  CHECK(error_with(at, -1) == "resources[0].count: expected a positive integer, got -1");
  CHECK(error_with(at, 0) == "resources[0].count: expected a positive integer, got 0");
  CHECK(error_with(at, 1.5) == "resources[0].count: expected a positive integer, got 1.5");
  CHECK(error_with(at, true) == "resources[0].count: expected a positive integer, got true");
  CHECK(error_with(at, 1e30) == "resources[0].count: expected a positive integer, got 1e+30");
  CHECK(error_with(at, UINT64_MAX) == "resources[0].count: at most 16777216, got 18446744073709551615");
  CHECK(error_with(at, 16777217) == "resources[0].count: at most 16777216, got 16777217");
  CHECK(error_with(at, 16777216) == "accepted");
  CHECK(error_with("/resources/0/with/0/count", -7) ==
        "resources[0].with[0].count: expected a positive integer, got -7");
  CHECK(error_with("/tasks/0/count", {{"total", 0}}) == "tasks[0].count.total: expected a positive integer, got 0");
  CHECK(error_with("/tasks/0/count", {{"total", 16777217}}) ==
        "tasks[0].count.total: at most 16777216, got 16777217");
}

TEST_CASE("counts that are too large only when multiplied") {
  Json document = node_document();
  document["resources"][0]["count"] = 1 << 12;
  document["resources"][0]["with"][0]["count"] = 1 << 12;
  CHECK(Jobspec::from_json(document).value().slots == 1 << 24);
  CHECK(error_with(document, "/resources/0/with/0/count", (1 << 12) + 1) ==
        "resources[0].with[0]: 16781312 slots on all nodes; at most 16777216");
  CHECK(error_with(document, "/tasks/0/count/per_slot", 2) ==
        "tasks[0].count: 33554432 tasks in all; at most 16777216");
}

TEST_CASE("resource vertices that have no meaning") {
  CHECK(error_with("/resources/0/type", "core") == "resources: expected one slot, got 0");
  CHECK(error_with("/resources/0/type", 1) == "resources[0].type: expected a string, got 1");
  CHECK(error_with("/resources/0/with/0/type", "slot") == "resources[0].with[0]: a slot in a slot");
  CHECK(error_with(node_document(), "/resources/0/with/0/type", "core") == "resources: expected one slot, got 0");
  Json document = node_document();
  document["resources"] = Json::array({{{"type", "node"}, {"count", 1}, {"with", document["resources"]}}});
  CHECK(error_with(document, "/version", 1) == "resources[0].with[0]: a node in a node");
  CHECK(error_with("/resources", Json::array()) == "resources: expected one slot, got 0");
  CHECK(error_with("/resources", Json::object()) == "resources: expected an array, got an object");
  CHECK(error_with("/resources/0", 5) == "resources[0]: expected an object, got 5");
  document = slot_document();
  document["resources"].push_back(document["resources"][0]);
  CHECK(error_with(document, "/version", 1) ==
        "resources: expected one slot, got 2; the option multi-prog runs several programs");
}

TEST_CASE("a slot has cores once, and gpus at most once") {
  const Json core = {{"type", "core"}, {"count", 1}};
  const Json gpu = {{"type", "gpu"}, {"count", 1}};
  const char* at = "/resources/0/with";
  CHECK(error_with(at, Json::array({gpu, core})) == "accepted");
  CHECK(error_with(at, Json::array({core, core})) == "resources[0].with[1]: a second core");
  CHECK(error_with(at, Json::array({core, gpu, gpu})) == "resources[0].with[2]: a second gpu");
  CHECK(error_with(at, Json::array({gpu})) == "resources[0].with: no core; a slot needs one");
  CHECK(error_with(at, Json::array()) == "resources[0].with: no core; a slot needs one");
}

TEST_CASE("keys of a vertex") {
  CHECK(error_with("/resources/0/id", "x") == "accepted");
  CHECK(error_with("/resources/0/ids", "x").find("resources[0].ids: unknown key; known: type, count,") == 0);
  CHECK(error_with("/resources/0/unit", 5) == "resources[0].unit: expected a string, got 5");
  CHECK(error_with("/resources/0/label", 5) == "resources[0].label: expected a string, got 5");
  CHECK(error_with("/resources/0/exclusive", "yes") ==
        "resources[0].exclusive: expected true or false, got \"yes\"");
  CHECK(error_with(node_document(), "/resources/0/exclusive", 1) ==
        "resources[0].exclusive: expected true or false, got 1");
}

// ---- the task --------------------------------------------------------------

TEST_CASE("there is one task") {
  Json document = slot_document();
  document["tasks"].push_back(document["tasks"][0]);
  CHECK(error_with(document, "/version", 1) ==
        "tasks: expected one task, got 2; the option multi-prog runs several programs");
  CHECK(error_with("/tasks", Json::array()) == "tasks: expected one task, got 0");
  CHECK(error_with("/tasks", 1) == "tasks: expected an array, got 1");
  CHECK(error_with("/tasks/0/colour", "red").find("tasks[0].colour: unknown key; known: command, slot, count,") ==
        0);
  CHECK(error_with("/tasks/0/distribution", 1) == "tasks[0].distribution: expected a string, got 1");
}

TEST_CASE("variables of the task go over those of the job") {
  Json document = slot_document();
  document["attributes"]["system"]["environment"] = {{"A", "1"}, {"B", "2"}, {"C", "3"}};
  document["tasks"][0]["attributes"] = {{"environment", {{"B", nullptr}, {"C", "4"}, {"D", "5"}}}, {"mine", 1}};
  auto spec = Jobspec::from_json(document).value();
  CHECK(spec.environment == std::vector<std::pair<std::string, std::string>>{{"A", "1"}, {"C", "4"}, {"D", "5"}});
  CHECK(error_with("/tasks/0/attributes", {{"environment", {{"A", 1}}}}) ==
        "tasks[0].attributes.environment.A: expected a string, got 1");
}

TEST_CASE("the task names the slot by its label") {
  CHECK(error_with("/tasks/0/slot", "other") ==
        "tasks[0].slot: names no slot: \"other\"; the only slot is labelled 'task'");
  CHECK(error_with("/resources/0/label", "other") ==
        "tasks[0].slot: names no slot: \"task\"; the only slot is labelled 'other'");
  CHECK(error_with("/tasks/0/slot", 1) == "tasks[0].slot: expected a string, got 1");
}

TEST_CASE("the command") {
  const char* at = "/tasks/0/command";
  CHECK(error_with(at, Json::array()) ==
        "tasks[0].command: expected a program and its arguments, got an empty list");
  CHECK(error_with(at, Json::array({""})) == "tasks[0].command: expected a program's name first, got an empty one");
  CHECK(error_with(at, "app") == "tasks[0].command: expected an array, got \"app\"");
  CHECK(error_with(at, Json::array({"app", 5})) == "tasks[0].command[1]: expected a string, got 5");
  CHECK(error_with(at, Json::array({"app", std::string("a\0b", 3)})) ==
        "tasks[0].command[1]: an argument cannot have a NUL");
}

TEST_CASE("an argument is as long as the kernel takes it") {
  CHECK(error_with("/tasks/0/command/1", std::string(131071, 'x')) == "accepted");
  CHECK(error_with("/tasks/0/command/1", std::string(131072, 'x')) ==
        "tasks[0].command[1]: 131072 bytes; at most 131071");
}

TEST_CASE("the count of tasks has one key") {
  const char* at = "/tasks/0/count";
  CHECK(error_with(at, Json::object()) ==
        "tasks[0].count: expected one of per_slot, total and per_resource, got none");
  CHECK(error_with(at, {{"per_slot", 1}, {"total", 1}}) ==
        "tasks[0].count: expected one of per_slot, total and per_resource, got several");
  CHECK(error_with(at, 4) == "tasks[0].count: expected an object, got 4");
  CHECK(error_with(at, {{"per_slot", "1-2"}}) ==
        "tasks[0].count.per_slot: expected a positive integer, got \"1-2\"");
}

// ---- attributes ------------------------------------------------------------

TEST_CASE("duration") {
  const char* at = "/attributes/system/duration";
  CHECK(error_with(at, -1) == "attributes.system.duration: expected a number of seconds, not negative, got -1");
  CHECK(error_with(at, "60") == "attributes.system.duration: expected a number, got \"60\"");
  CHECK(error_with(at, true) == "attributes.system.duration: expected a number, got true");
}

TEST_CASE("cwd") {
  const char* at = "/attributes/system/cwd";
  CHECK(error_with(at, 7) == "attributes.system.cwd: expected a string, got 7");
  CHECK(error_with(at, "tmp") == "attributes.system.cwd: expected an absolute path, got \"tmp\"");
  CHECK(error_with(at, "") == "attributes.system.cwd: expected an absolute path, got \"\"");
  CHECK(error_with(at, std::string("/t\0p", 4)).find("attributes.system.cwd: expected an absolute path, got ") ==
        0);
}

TEST_CASE("environment") {
  const char* at = "/attributes/system/environment";
  CHECK(error_with(at, Json::array()) == "attributes.system.environment: expected an object, got an array");
  CHECK(error_with(at, {{"A", 1}}) == "attributes.system.environment.A: expected a string, got 1");
  CHECK(error_with(at, {{"A=B", "1"}}) ==
        "attributes.system.environment: expected a variable's name, without '=' and NUL, got 'A=B'");
  CHECK(error_with(at, {{"", "1"}}) == "attributes.system.environment: expected a variable's name, got ''");
  CHECK(error_with(at, {{"A", std::string("x\0", 2)}}) ==
        "attributes.system.environment: expected a value without NUL for 'A', got 'x\\x00'");
}

TEST_CASE("a variable is as long as the kernel takes it") {
  const char* at = "/attributes/system/environment";
  CHECK(error_with(at, {{"AB", std::string(131071 - 3, 'x')}}) == "accepted");
  CHECK(error_with(at, {{"AB", std::string(131071 - 2, 'x')}}) ==
        "attributes.system.environment.AB: 131072 bytes with its name; at most 131071");
}

TEST_CASE("attributes of other types") {
  CHECK(error_with("/attributes", 1) == "attributes: expected an object, got 1");
  CHECK(error_with("/attributes/site", 1) == "attributes.site: unknown key; known: system, user");
  CHECK(error_with("/attributes/user", 1) == "attributes.user: expected an object, got 1");
  CHECK(error_with("/attributes/system", 1) == "attributes.system: expected an object, got 1");
  CHECK(error_with("/attributes/system/shell", 1) == "attributes.system.shell: expected an object, got 1");
  CHECK(error_with("/attributes/system/shell/options", Json::array()) ==
        "attributes.system.shell.options: expected an object, got an array");
}

// What jobspecs have of RFC 14 beyond version 1.

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

namespace {

// The numbers from 0 to `most` that are in the range; or the error.
std::string counts(const Json& count, std::uint32_t most = 20) {
  auto range = CountRange::read(JsonAt::root(count, "count"));
  if (!range) return range.error().message;
  std::string out;
  for (std::uint32_t i = 0; i <= most; ++i) {
    if (range->contains(i)) out += (out.empty() ? "" : " ") + std::to_string(i);
  }
  return out;
}

constexpr const char* kText = "count: expected a positive integer, or a range as 2-8, 4+, 2-8:2 or 2-16:2:*, got ";

}  // namespace

TEST_CASE("a number is a range of one") {
  CHECK(counts(4) == "4");
  CHECK(CountRange::read(JsonAt::root(4)).value().is_fixed());
  CHECK(counts("4") == "4");
}

TEST_CASE("ranges of RFC 14 and RFC 45") {
  CHECK(counts("2-5") == "2 3 4 5");
  CHECK(counts("4,9,16") == "4 9 16");
  CHECK(counts("18+") == "18 19 20");
  CHECK(counts("2-9:3") == "2 5 8");
  CHECK(counts("3+:5") == "3 8 13 18");
  CHECK(counts("2-20:2:*") == "2 4 8 16");
  CHECK(counts("2+:2:^", 300) == "2 4 16 256");
  CHECK(counts({{"min", 18}}) == "18 19 20");
  CHECK(counts({{"min", 3}, {"max", 9}, {"operator", "+"}, {"operand", 2}}) == "3 5 7 9");
  CHECK(counts({{"min", 1}, {"max", 9}, {"operator", "*"}, {"operand", 3}}) == "1 3 9");
  CHECK_FALSE(CountRange::read(JsonAt::root(Json("2-5"))).value().is_fixed());
  CHECK(CountRange::read(JsonAt::root(Json("2-5"))).value().min() == 2);
}

TEST_CASE("a count that is none") {
  CHECK(counts(0) == "count: expected a positive integer, got 0");
  CHECK(counts(16777217) == "count: at most 16777216, got 16777217");
  for (const char* text :
       {"", "0", "0-4", "x", "5-", "4:", "2-8:0", "2-8:2:%", "2-8:2:*:3", "+", "16777217", "-3+"}) {
    INFO(text);
    CHECK(counts(text) == kText + Json(text).dump());
  }
  CHECK(counts("8-2:2") == "count: max 2 is below min 8");
  CHECK(counts({{"min", 8}, {"max", 2}}) == "count: max 2 is below min 8");
  CHECK(counts({{"min", 1}, {"operator", "+"}}) == "count: `operator` and `operand` go together");
  CHECK(counts({{"min", 1}, {"operator", "-"}, {"operand", 1}}) ==
        "count.operator: expected one of +, *, ^, got \"-\"");
  CHECK(counts("2-8:1:*") == "count: the operator * needs an operand of at least 2");
  CHECK(counts("1-8:2:^") == "count: the operator ^ needs a min of at least 2");
  CHECK(counts({{"max", 4}}) == "count: missing key 'min'");
  CHECK(counts({{"min", 4}, {"most", 4}}).starts_with("count.most: unknown key"));
}

TEST_CASE("the largest count up to a number, and the range as text") {
  auto range = [](const Json& count) { return CountRange::read(JsonAt::root(count)).value(); };
  CHECK(range("2-8").largest(9) == 8);
  CHECK(range("2-8").largest(5) == 5);
  CHECK_FALSE(range("2-8").largest(1));
  CHECK(range("2-8:2").largest(7) == 6);
  CHECK(range("2+:2:*").largest(63) == 32);
  CHECK(range("4,9,16").largest(15) == 9);
  CHECK(range("2-8").str() == "2:8");
  CHECK(range("4+").str() == "4:");
  CHECK(range("2-8:2").str() == "2-8:2:+");
  CHECK(range("2+:2:^").str() == "2+:2:^");
  CHECK(range("4,9").str() == "4,9");
}
