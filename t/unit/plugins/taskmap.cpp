// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

std::string jobspec(unsigned nodes, unsigned tasks_per_node, const std::string& cwd) {
  return fmt::format(R"({{"version":1,"resources":[{{"type":"node","count":{},"with":[
    {{"type":"slot","count":{},"label":"task","with":[{{"type":"core","count":1}}]}}]}}],
    "tasks":[{{"command":["true"],"slot":"task","count":{{"per_slot":1}}}}],
    "attributes":{{"system":{{"duration":0,"cwd":"{}"}}}}}})",
                     nodes, tasks_per_node, cwd);
}

std::string resources(unsigned nodes, const std::string& hosts) {
  return fmt::format(R"({{"version":1,"execution":{{"R_lite":[{{"rank":"0-{}","children":{{"core":"0-15"}}}}],
    "nodelist":["{}"],"starttime":0,"expiration":0}}}})",
                     nodes - 1, hosts);
}

struct Mapping : kit::TemporaryFolder {
  explicit Mapping(unsigned nodes = 4, unsigned tasks_per_node = 4, const std::string& hosts = "fake[0-3]")
      : host(jobspec(nodes, tasks_per_node, path()), resources(nodes, hosts)) {
    host.stack().push(plugins::make_taskmap(host));
  }

  std::string call(const std::string& scheme, std::optional<std::string> value = std::nullopt,
                   const Json& map = nullptr) {
    plugin::Call call("taskmap." + scheme);
    call.in["taskmap"] = map.is_null() ? Json(host.job().taskmap.str()) : map;
    if (value) call.in["value"] = *value;
    Result<int> called = host.stack().call(call);
    if (!called) return called.error().message;
    CHECK(*called == 1);
    return call.out["taskmap"].get<std::string>();
  }

  kit::FakeHost host;
};

constexpr const char* kManual = "plugin 'taskmap': taskmap.manual: ";
constexpr const char* kHostfile = "plugin 'taskmap': taskmap.hostfile: ";

}  // namespace

TEST_CASE("block leaves the map as it is") { CHECK(Mapping().call("block") == "[[0,4,4,1]]"); }

TEST_CASE("block takes no value") {
  CHECK(Mapping().call("block", "oops") == "plugin 'taskmap': taskmap.block: takes no value, got 'oops'");
}

TEST_CASE("an empty value is none, as front ends of Flux write it") {
  Mapping mapping;
  CHECK(mapping.call("block", "") == "[[0,4,4,1]]");
  CHECK(mapping.call("cyclic", "") == "[[0,4,1,4]]");
}

TEST_CASE("the block map comes as text or as JSON") {
  Mapping mapping;
  CHECK(mapping.call("cyclic", {}, Json::parse("[[0,4,4,1]]")) == "[[0,4,1,4]]");
  CHECK(mapping.call("cyclic", {}, Json::parse(R"({"version":1,"map":[[0,4,4,1]]})")) == "[[0,4,1,4]]");
  CHECK(mapping.call("cyclic", {}, R"({"version":1,"map":[[0,4,4,1]]})") == "[[0,4,1,4]]");
}

TEST_CASE("cyclic gives one task, or a stride of tasks, to each node in turn") {
  Mapping mapping;
  CHECK(mapping.call("cyclic") == "[[0,4,1,4]]");
  CHECK(mapping.call("cyclic", "1") == "[[0,4,1,4]]");
  CHECK(mapping.call("cyclic", "2") == "[[0,4,2,2]]");
  CHECK(mapping.call("cyclic", "3") == "[[0,4,3,1],[0,4,1,1]]");
  CHECK(mapping.call("cyclic", "4") == "[[0,4,4,1]]");
  CHECK(mapping.call("cyclic", "16777216") == "[[0,4,4,1]]");
}

TEST_CASE("cyclic passes over nodes that have no room") {
  CHECK(Mapping().call("cyclic", {}, "[[0,1,3,1],[1,1,1,1],[2,1,2,1]]") ==
        "[[0,3,1,1],[0,1,1,1],[2,1,1,1],[0,1,1,1]]");
}

TEST_CASE("one large node among many small ones is not walked to again and again") {
  Json map = Json::array({Json::array({0, 1, 100000, 1}), Json::array({1, 100000, 1, 1})});
  CHECK(Mapping().call("cyclic", {}, map) == "[[0,100001,1,1],[0,1,99999,1]]");
}

TEST_CASE("a stride that is no positive number is an error") {
  for (const char* value : {"0", "foo", "-1", "1.5", "16777217", "99999999999999999999"}) {
    CHECK(
        Mapping().call("cyclic", value) ==
        fmt::format("plugin 'taskmap': taskmap.cyclic: expected a stride of 1 to 16777216 tasks, got '{}'", value));
  }
}

TEST_CASE("manual takes a map in a form of RFC 34") {
  Mapping mapping;
  CHECK(mapping.call("manual", "[[1,3,4,1],[0,1,4,1]]") == "[[1,3,4,1],[0,1,4,1]]");
  CHECK(mapping.call("manual", R"({"version":1,"map":[[3,1,4,1],[0,3,4,1]]})") == "[[3,1,4,1],[0,3,4,1]]");
  CHECK(mapping.call("manual", "12-15;8-11;4-7;0-3") == "[[3,1,4,1],[2,1,4,1],[1,1,4,1],[0,1,4,1]]");
}

TEST_CASE("a manual map with more or fewer tasks, or on other nodes, is an error") {
  Mapping mapping;
  CHECK(mapping.call("manual", "[[1,3,4,1]]") == std::string(kManual) + "the map has 12 tasks, the job 16");
  CHECK(mapping.call("manual", "[[0,4,4,1],[0,1,1,1]]") ==
        std::string(kManual) + "the map has 17 tasks, the job 16");
  CHECK(mapping.call("manual", "[[1,4,4,1]]") ==
        std::string(kManual) + "the map has a node 4, the job has nodes 0-3");
  CHECK(mapping.call("manual", "[]") == std::string(kManual) + "the map has 0 tasks, the job 16");
}

TEST_CASE("a manual map that leaves out or repeats a task, or is no map, is an error") {
  Mapping mapping;
  for (const char* value :
       {"{}", "oops", "[[1,3,4]]", "0-3;4-7;8-11;11-14", "0-3;4-7;8-11;13-16", "[[0,4,-4,1]]"}) {
    INFO(value);
    CHECK(mapping.call("manual", value).starts_with(std::string(kManual) + "taskmap: "));
  }
  CHECK(mapping.call("manual").starts_with(std::string(kManual) + "a map is missing"));
}

TEST_CASE("hostfile gives the tasks to the hosts in their order") {
  Mapping one(4, 1);
  CHECK(one.call("hostfile", one.file("h", "fake3\nfake2\nfake1\nfake0\n")) ==
        "[[3,1,1,1],[2,1,1,1],[1,1,1,1],[0,1,1,1]]");
  Mapping two(4, 2);
  std::string pairs = two.file("h", "fake3\nfake3\nfake2\nfake2\nfake1\nfake1\nfake0\nfake0\n");
  CHECK(two.call("hostfile", pairs) == "[[3,1,2,1],[2,1,2,1],[1,1,2,1],[0,1,2,1]]");
}

TEST_CASE("a hostfile with fewer hosts than tasks starts anew") {
  Mapping mapping(4, 2);
  CHECK(mapping.call("hostfile", mapping.file("h", "fake3\nfake2\nfake1\nfake0")) ==
        "[[3,1,1,1],[2,1,1,1],[1,1,1,1],[0,1,1,1],[3,1,1,1],[2,1,1,1],[1,1,1,1],[0,1,1,1]]");
}

TEST_CASE(
    "a hostfile has hostlists, comments and empty lines, and its path may be relative to the job's directory") {
  Mapping mapping(4, 2);
  mapping.file("h", "# front\n\nfake[1,2] # two\r\n  fake[3,0]\n");
  CHECK(mapping.call("hostfile", "h") == "[[1,3,1,1],[0,4,1,1],[0,1,1,1]]");
}

TEST_CASE("a host of a hostfile that has no room is passed over") {
  Mapping mapping(4, 1);
  CHECK(mapping.call("hostfile", mapping.file("h", "fake[0,0,0,1,3,2]")) == "[[0,2,1,1],[3,1,1,1],[2,1,1,1]]");
}

TEST_CASE("a host that R has twice is filled node by node") {
  Mapping mapping(4, 2, "a,b,a,b");
  CHECK(mapping.call("hostfile", mapping.file("h", "b,a")) ==
        "[[1,1,1,1],[0,2,1,1],[0,1,1,1],[3,1,1,1],[2,2,1,1],[2,1,1,1]]");
}

TEST_CASE("hosts that are not the job's, and hosts of the job that are not named, are errors") {
  Mapping mapping(4, 1);
  std::string other = mapping.file("other", "fake[0-3]\nfoo\n");
  CHECK(mapping.call("hostfile", other) == kHostfile + other + ": 'foo' is not a host of the job");
  std::string few = mapping.file("few", "fake[0,0,1,2]\n");
  CHECK(mapping.call("hostfile", few) ==
        kHostfile + few + ": host 'fake3' of the job is not named, and has room for 1 of its tasks");
}

TEST_CASE("a hostfile that is missing, empty or malformed is an error") {
  Mapping mapping(4, 1);
  CHECK(mapping.call("hostfile", "/no/such/file") ==
        std::string(kHostfile) + "/no/such/file: No such file or directory");
  CHECK(mapping.call("hostfile").starts_with(std::string(kHostfile) + "a path is missing"));
  CHECK(mapping.call("hostfile", "").starts_with(std::string(kHostfile) + "a path is missing"));
  std::string empty = mapping.file("empty", "# nobody\n");
  CHECK(mapping.call("hostfile", empty) == kHostfile + empty + ": no host names; expected a hostlist on each line");
  std::string bad = mapping.file("bad", "fake0\nfake[0-3\n");
  CHECK(mapping.call("hostfile", bad).starts_with(kHostfile + bad + ":2: "));
  std::string slots = mapping.file("slots", "fake0 slots=4\n");
  CHECK(mapping.call("hostfile", slots).starts_with(kHostfile + slots + ":1: "));
}

TEST_CASE("a hostfile of more hosts than the limit is an error") {
  Mapping mapping(4, 1);
  std::string file = mapping.file("many", "fake[0-1048575]\nfake0\n");
  CHECK(mapping.call("hostfile", file) == kHostfile + file + ":2: more than 1048576 hosts");
}
