// SPDX-License-Identifier: Apache-2.0
#include "value/taskmap.hpp"

#include "catch.hpp"

#include "base/json.hpp"
#include "fewer.hpp"

using namespace nacre;  // NOLINT
using nacre::value::Idset;
using nacre::value::Taskmap;

namespace {

Taskmap map_of(std::string_view text) {
  INFO(text);
  auto map = Taskmap::parse(text);
  if (!map) FAIL(map.error().message);
  return *map;
}

std::string taskmap_error(std::string_view text) {
  INFO(text);
  auto map = Taskmap::parse(text);
  REQUIRE_FALSE(map);
  return map.error().message;
}

struct Pair {
  const char* raw;
  const char* map;
};

constexpr Pair kRfc34[] = {
    {"0", "[[0,1,1,1]]"},
    {"0;1", "[[0,2,1,1]]"},
    {"0-1", "[[0,1,2,1]]"},
    {"0-1;2-3", "[[0,2,2,1]]"},
    {"0,2;1,3", "[[0,2,1,2]]"},
    {"1;0", "[[1,1,1,1],[0,1,1,1]]"},
    {"0-3;4-7;8-11;12-15", "[[0,4,4,1]]"},
    {"0,4,8,12;1,5,9,13;2,6,10,14;3,7,11,15", "[[0,4,1,4]]"},
    {"0-1,8-9;2-3,10-11;4-5,12-13;6-7,14-15", "[[0,4,2,2]]"},
    {"0-1;2-3;4-5;6-7;8-11;12-15", "[[0,4,2,1],[4,2,4,1]]"},
    {"0,6;1,7;2,8;3,9;4,10,12,14;5,11,13,15", "[[0,6,1,2],[4,2,1,2]]"},
    {"14-15;12-13;10-11;8-9;4-7;0-3", "[[5,1,4,1],[4,1,4,1],[3,1,2,1],[2,1,2,1],[1,1,2,1],[0,1,2,1]]"},
    {"0-1;2-3;4-5;6-7;8-9;12-13;10-11;14-15", "[[0,5,2,1],[6,1,2,1],[5,1,2,1],[7,1,2,1]]"},
    {"12-15;8-11;4-7;0-3", "[[3,1,4,1],[2,1,4,1],[1,1,4,1],[0,1,4,1]]"},
};

}  // namespace

TEST_CASE("RFC 34's test vectors hold both ways") {
  for (const Pair& each : kRfc34) {
    INFO(each.raw);
    CHECK(map_of(each.raw).str() == each.map);
    CHECK(map_of(each.map).str() == each.map);
    CHECK(map_of(each.map).raw() == each.raw);
    CHECK(map_of(each.map) == map_of(each.raw));
    std::string wrapped = std::string(R"({"version":1, "map":)") + each.map + "}";
    CHECK(map_of(wrapped) == map_of(each.raw));
  }
}

TEST_CASE("the PMI and Flux forms of RFC 34's examples are the same maps") {
  const Pair same[] = {
      {"(vector,(0,4,4))", "[[0,4,4,1]]"},
      {"(vector,(0,4,1),(0,4,1),(0,4,1),(0,4,1))", "[[0,4,1,4]]"},
      {"(vector,(0,4,2),(0,4,2))", "[[0,4,2,2]]"},
      {"(vector,(0,4,2),(4,2,4))", "[[0,4,2,1],[4,2,4,1]]"},
      {"(vector,(0,6,1),(0,6,1),(4,2,1),(4,2,1))", "[[0,6,1,2],[4,2,1,2]]"},
      {"(vector,(0,6,2),(4,2,2))", "[[0,6,2,1],[4,2,2,1]]"},
      {"(vector,(0,4096,256))", "[[0,4096,256,1]]"},
      {"(vector,(0,8,16),(0,4,32))", "[[0,8,16,1],[0,4,32,1]]"},
      {"(vector,(0,4,2),(1,3,1))", "[[0,4,2,1],[1,3,1,1]]"},
      {"(vector,(1,1,1),(0,2,2))", "[[1,1,1,1],[0,2,2,1]]"},
  };
  for (const Pair& each : same) {
    CHECK(map_of(each.raw).str() == each.map);
    CHECK(map_of(each.map).pmi() == each.raw);
  }
}

TEST_CASE("the PMI form may have blanks and a last comma, as servers write it") {
  CHECK(map_of("(vector,(0,16,16))").str() == "[[0,16,16,1]]");
  CHECK(map_of("  (vector, (0,4,4), (0,4,1), )").str() == "[[0,4,4,1],[0,4,1,1]]");
  CHECK(map_of("( vector , ( 0 , 1 , 1 ),\t(1, 5,3), (6,2, 5) )\n").str() == "[[0,1,1,1],[1,5,3,1],[6,2,5,1]]");
}

TEST_CASE("a map without information is unknown") {
  for (const char* text : {"", " ", "[]", "(vector)", "(vector,)", R"({"version":1,"map":[]})"}) {
    INFO(text);
    auto map = map_of(text);
    CHECK(map.unknown());
    CHECK(map.tasks() == 0);
    CHECK(map.nodes() == 0);
    CHECK(map == Taskmap());
  }
  CHECK(Taskmap().str() == "[]");
  CHECK(Taskmap().raw() == "");
  CHECK(Taskmap().pmi() == "");
  CHECK(dump_json(Taskmap().json()) == R"({"map":[],"version":1})");
  CHECK(Taskmap::block({0, 0}).unknown());
  CHECK(Taskmap().node_of(0).error().message == "taskmap: there is no task 0, only 0 tasks");
}

TEST_CASE("blocks that continue one another are merged") {
  CHECK(map_of("[[0,1,1,1],[0,1,1,1],[0,1,1,14]]").str() == "[[0,1,16,1]]");
  CHECK(map_of("[[0,1,4,1],[1,1,4,1],[2,2,4,1],[4,1,8,1],[5,1,8,1],[4,2,8,1]]").str() == "[[0,4,4,1],[4,2,8,2]]");
  CHECK(map_of("[[0,2,1,1],[2,2,1,1],[0,3,1,1],[3,1,1,1],[0,4,1,7]]").str() == "[[0,4,1,9]]");
  CHECK(map_of("[[0,2,1,2],[2,2,1,1]]").str() == "[[0,2,1,2],[2,2,1,1]]");
}

TEST_CASE("maps are equal if each task has the same node, however they are cut") {
  CHECK(map_of("[[0,2,1,1],[1,1,1,1]]") == map_of("[[0,1,1,1],[1,1,2,1]]"));
  CHECK(map_of("[[0,2,1,3],[2,2,1,1]]") == map_of("[[0,2,1,2],[0,4,1,1]]"));
  CHECK(map_of("[[0,4,4,1]]") != map_of("[[0,4,2,2]]"));
  CHECK(map_of("[[0,4,4,1]]") != map_of("[[0,4,3,1]]"));
  CHECK(map_of("[[1,1,4,1]]") != map_of("[[0,1,4,1]]"));
}

TEST_CASE("a map tells who has which task") {
  auto map = map_of("[[0,6,1,2],[4,2,2,2]]");
  CHECK(map.tasks() == 20);
  CHECK(map.nodes() == 6);
  std::vector<std::uint32_t> nodes{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 4, 4, 5, 5, 4, 4, 5, 5};
  for (std::uint32_t task = 0; task < nodes.size(); ++task) CHECK(*map.node_of(task) == nodes[task]);
  CHECK(map.node_of(20).error().message == "taskmap: there is no task 20, only 20 tasks");
  CHECK(map.ranks_on(0).str() == "0,6");
  CHECK(map.ranks_on(4).str() == "4,10,12-13,16-17");
  CHECK(map.ranks_on(6).empty());
  CHECK(map.tasks_on(0) == 2);
  CHECK(map.tasks_on(5) == 6);
  CHECK(map.tasks_on(6) == 0);
  CHECK(Taskmap::of(nodes) == map);
  CHECK(Taskmap::of(nodes).str() == "[[0,6,1,2],[4,2,2,2]]");
}

TEST_CASE("a block map leaves out nodes without tasks") {
  auto map = Taskmap::block({2, 2, 0, 3});
  CHECK(map.str() == "[[0,2,2,1],[3,1,3,1]]");
  CHECK(map.raw() == "0-1;2-3;;4-6");
  CHECK(map_of("0-1;2-3;;4-6") == map);
  CHECK(map_of(";0").str() == "[[1,1,1,1]]");
}

TEST_CASE("a cyclic map of very many tasks is one block") {
  constexpr std::uint32_t kOnEach = kit::fewer(1000U);
  std::vector<std::uint32_t> node_of(std::size_t{1000} * kOnEach);
  for (std::uint32_t task = 0; task < node_of.size(); ++task) node_of[task] = task % 1000;
  auto map = Taskmap::of(node_of);
  CHECK(map.str() == "[[0,1000,1," + std::to_string(kOnEach) + "]]");
  CHECK(map.ranks_on(999).size() == kOnEach);
  CHECK(*map.node_of(1998) == 998);
  CHECK(map_of(map.raw()) == map);
  CHECK(map_of(map.pmi()) == map);
}

TEST_CASE("a map that no block compresses is still read and written in good time") {
  constexpr auto kNodes = kit::fewer(100'000U);
  std::vector<std::uint32_t> node_of(kNodes);
  for (std::uint32_t task = 0; task < kNodes; ++task) node_of[task] = kNodes - 1 - task;
  auto map = Taskmap::of(node_of);
  CHECK(map.blocks().size() == kNodes);
  CHECK(map_of(map.raw()) == map);
  CHECK(map_of(map.str()) == map);
  CHECK(*map.node_of(kNodes - 1) == 0);
  CHECK(map.same_size(map));
}

TEST_CASE("the sizes of two maps are compared, not where their tasks are") {
  auto sizes = [](const char* mine, const char* other) {
    auto same = map_of(mine).same_size(map_of(other));
    return same ? "" : same.error().message;
  };
  CHECK(sizes("[[0,4,1,4]]", "[[0,4,4,1]]") == "");
  CHECK(sizes("[[0,2,4,1],[2,1,3,1],[3,1,5,1]]", "[[0,4,4,1]]") == "");
  CHECK(sizes("[[0,4,3,1]]", "[[0,4,4,1]]") == "got 12 tasks, expected 16");
  CHECK(sizes("[[0,2,8,1]]", "[[0,4,4,1]]") == "got 2 nodes, expected 4");
}

TEST_CASE("the largest maps, and texts that are larger", "[long]") {
  CHECK(map_of("[[0,1,16777216,1]]").tasks() == Taskmap::kMaxTasks);
  CHECK(map_of("[[1048575,1,1,1]]").nodes() == Taskmap::kMaxNodes);
  CHECK(map_of("0" + std::string(Taskmap::kMaxNodes - 1, ';')).tasks() == 1);
  CHECK(taskmap_error("0" + std::string(Taskmap::kMaxNodes, ';')) ==
        "taskmap: 1048577 nodes are more than the limit of 1048576");
  CHECK(taskmap_error(std::string(Taskmap::kMaxText + 1, ' ')) == "taskmap: text longer than 67108864 bytes");
}

TEST_CASE("a map beyond the limits is refused before it is expanded") {
  std::string tasks = "more than the limit of 16777216 tasks";
  CHECK(taskmap_error("[[0,1,16777217,1]]") == "taskmap: [0]: " + tasks);
  CHECK(taskmap_error("[[0,1,16777216,1],[0,1,1,1]]") == "taskmap: [1]: " + tasks);
  CHECK(taskmap_error("[[0,4096,4096,2]]") == "taskmap: [0]: " + tasks);
  CHECK(taskmap_error("[[0,2,1,18446744073709551615]]") == "taskmap: [0]: " + tasks);
  CHECK(taskmap_error("[[0,1048576,4294967296,4294967296]]") == "taskmap: [0]: " + tasks);
  CHECK(taskmap_error("(vector,(0,1,16777216),(0,1,1))") == "taskmap: block 1: " + tasks);
  CHECK(taskmap_error("0-16777216") == "taskmap: " + tasks);
  CHECK(taskmap_error("[[1048576,1,1,1]]") ==
        "taskmap: [0]: 1 nodes from node 1048576 on go beyond the limit of 1048576 nodes");
  CHECK(taskmap_error("[[1,1048576,1,1]]") ==
        "taskmap: [0]: 1048576 nodes from node 1 on go beyond the limit of 1048576 nodes");
  CHECK(taskmap_error("[[0,4294967295,4294967295,4294967295]]") ==
        "taskmap: [0]: 4294967295 nodes from node 0 on go beyond the limit of 1048576 nodes");
  CHECK(taskmap_error("[[18446744073709551615,18446744073709551615,1,1]]").find("limit of 1048576 nodes") !=
        std::string::npos);
}

TEST_CASE("malformed JSON maps are refused with the place of the fault") {
  auto block = [](const std::string& where, const std::string& got) {
    return "taskmap: " + where + ": expected four integers [nodeid,nnodes,ppn,repeat], got " + got;
  };
  CHECK(taskmap_error("[[0,1,1]]") == block("[0]", "an array"));
  CHECK(taskmap_error("[[0,1,1,1],[0,1,1,1,1]]") == block("[1]", "an array"));
  CHECK(taskmap_error("[[]]") == block("[0]", "an array"));
  CHECK(taskmap_error("[[0,1,1,1],1]") == block("[1]", "1"));
  CHECK(taskmap_error("[{}]") == block("[0]", "an object"));
  CHECK(taskmap_error("[[-1,1,1,1]]") == "taskmap: [0][0]: expected an integer of at least 0, got -1");
  CHECK(taskmap_error("[[0,1,1,1],[0,1,1,-1]]") == "taskmap: [1][3]: expected an integer of at least 0, got -1");
  CHECK(taskmap_error(R"([["0",1,1,1]])") == R"(taskmap: [0][0]: expected an integer of at least 0, got "0")");
  CHECK(taskmap_error("[[0,1.5,1,1]]") == "taskmap: [0][1]: expected an integer of at least 0, got 1.5");
  CHECK(taskmap_error("[[0,0,1,1]]") ==
        "taskmap: [0]: expected nnodes, ppn and repeat of at least 1, got 0, 1 and 1");
  CHECK(taskmap_error("[[0,1,0,1]]") ==
        "taskmap: [0]: expected nnodes, ppn and repeat of at least 1, got 1, 0 and 1");
  CHECK(taskmap_error("[[0,1,1,0]]") ==
        "taskmap: [0]: expected nnodes, ppn and repeat of at least 1, got 1, 1 and 0");
  CHECK(taskmap_error("[[0,1,1,1]").find("taskmap: not JSON: line 1, column 11") == 0);
  CHECK(taskmap_error("{}") == "taskmap: missing key 'version'");
  CHECK(taskmap_error(R"({"version":1})") == "taskmap: missing key 'map'");
  CHECK(taskmap_error(R"({"version":1,"map":{}})") == "taskmap: map: expected an array of blocks, got an object");
  CHECK(taskmap_error(R"({"version":1,"map":[[0,1,1]]})") == block("map[0]", "an array"));
  CHECK(taskmap_error(R"({"version":1,"map":[[0,1,1,"x"]]})") ==
        R"(taskmap: map[0][3]: expected an integer of at least 0, got "x")");
  CHECK(taskmap_error(R"({"version":2,"map":[[0,1,1,1]]})") == "taskmap: version: expected 1, got 2");
  CHECK(taskmap_error(R"({"version":"1","map":[]})") == R"(taskmap: version: expected 1, got "1")");
  CHECK(taskmap_error(R"({"version":1,"map":[],"x":0})") == "taskmap: x: unknown key; known: version, map");
  CHECK(Taskmap::from_json(Json(3)).error().message == "taskmap: expected an array of blocks, got 3");
  CHECK(Taskmap::from_json(Json::parse("[[0,2,2,1]]"))->str() == "[[0,2,2,1]]");
}

TEST_CASE("malformed PMI maps are refused") {
  CHECK(taskmap_error("(vector,(1,1))") == "taskmap: block 0: expected ',' before '))'");
  CHECK(taskmap_error("(vector,(0,1,1,1))") == "taskmap: block 0: expected ')' before ',1))'");
  CHECK(taskmap_error("(vector,(0,1,1) (1,1,1))") == "taskmap: expected ',' before '(1,1,1))'");
  CHECK(taskmap_error("(vector, (1.11, 2.2))") == "taskmap: block 0: expected ',' before '.11, 2.2))'");
  CHECK(taskmap_error("(vector, (1,-1,1))") == "taskmap: block 0: expected a number of 64 bits before '-1,1))'");
  CHECK(taskmap_error("(vector,(0,18446744073709551616,1))") ==
        "taskmap: block 0: expected a number of 64 bits before '18446744073709551616,1))'");
  CHECK(taskmap_error("(vector,(1,1,0))") ==
        "taskmap: block 0: expected nnodes, ppn and repeat of at least 1, got 1, 0 and 1");
  CHECK(taskmap_error("((1,1,1))") == "taskmap: expected 'vector' before '(1,1,1))'");
  CHECK(taskmap_error("(vector,(0,1,1)") == "taskmap: expected ',' before ''");
  CHECK(taskmap_error("(vector,(0,1,1)) x") == "taskmap: expected the end before 'x'");
  CHECK(taskmap_error("(") == "taskmap: expected 'vector' before ''");
}

TEST_CASE("a raw map has each task once") {
  CHECK(taskmap_error("0-1;1-2") == "taskmap: task 1 is given twice");
  CHECK(taskmap_error("5-15;0-10") == "taskmap: task 5 is given twice");
  CHECK(taskmap_error("0-9;3") == "taskmap: task 3 is given twice");
  CHECK(taskmap_error("1") == "taskmap: task 0 is on no node");
  CHECK(taskmap_error("3-4;0-1") == "taskmap: task 2 is on no node");
  CHECK(taskmap_error("0-2;4-5") == "taskmap: task 3 is on no node");
  CHECK(taskmap_error("4294967294") == "taskmap: task 0 is on no node");
  CHECK(taskmap_error(";") == "taskmap: no node has a task");
  CHECK(taskmap_error("1-3;a-b").find("taskmap: node 1: ") == 0);
  CHECK(taskmap_error("0;1,1").find("taskmap: node 1: ") == 0);
}

TEST_CASE("text that is no map at all is told the three forms") {
  for (const char* text : {"vector, (1,1))", "-1", "}", "x"}) {
    CHECK(taskmap_error(text) ==
          "taskmap: expected [[nodeid,nnodes,ppn,repeat],...], (vector,...) or idsets parted by ';', "
          "got '" +
              std::string(text) + "'");
  }
}
