// SPDX-License-Identifier: Apache-2.0
#include "job/resources.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using nacre::Json;
using nacre::job::Resources;

namespace {

Json document() {
  return Json::parse(R"({"version": 1, "execution": {
    "R_lite": [{"rank": "2,7", "children": {"core": "0-3", "gpu": "0"}}, {"rank": "3-4", "children": {"core": "1,3"}}],
    "nodelist": ["a[1-3]", "b"], "starttime": 10, "expiration": 20.5}})");
}

std::string error_with_r(const char* pointer, Json value) {
  Json changed = document();
  changed[Json::json_pointer(pointer)] = std::move(value);
  auto resources = Resources::from_json(std::move(changed));
  return resources ? "accepted" : resources.error().message;
}

std::string error_without_r(const char* parent, const char* key) {
  Json changed = document();
  changed[Json::json_pointer(parent)].erase(key);
  auto resources = Resources::from_json(std::move(changed));
  return resources ? "accepted" : resources.error().message;
}

std::vector<std::string> names_of(const Resources& resources) {
  std::vector<std::string> names;
  for (const auto& node : resources.nodes) names.push_back(node.hostname);
  return names;
}

Json entry(const std::string& rank, const std::string& core) {
  return {{"rank", rank}, {"children", {{"core", core}}}};
}

// R_lite alone.
Json with_entries(Json entries) {
  Json out = {{"version", 1}};
  out["execution"]["R_lite"] = std::move(entries);
  return out;
}

}  // namespace

TEST_CASE("nodes are ordered by rank, however R_lite is, and names go to them in that order") {
  auto resources = Resources::from_json(document()).value();
  REQUIRE(resources.nodes.size() == 4);
  std::vector<std::uint32_t> ranks;
  for (const auto& node : resources.nodes) ranks.push_back(node.broker_rank);
  CHECK(ranks == std::vector<std::uint32_t>{2, 3, 4, 7});
  CHECK(names_of(resources) == std::vector<std::string>{"a1", "a2", "a3", "b"});
  CHECK(resources.nodes[0].cores.str() == "0-3");
  CHECK(resources.nodes[0].gpus.str() == "0");
  CHECK(resources.nodes[1].cores.str() == "1,3");
  CHECK(resources.nodes[1].gpus.empty());
  CHECK(resources.nodes[3].cores.str() == "0-3");
  CHECK(resources.starttime == 10);
  CHECK(resources.expiration == 20.5);
  CHECK(resources.document == document());
}

TEST_CASE("rank sets with holes, interleaved") {
  auto resources =
      Resources::from_json(with_entries(Json::array({entry("0,3-4", "0"), entry("1-2", "1"), entry("[5,9]", "2")})))
          .value();
  std::string cores;
  for (const auto& node : resources.nodes) cores += node.cores.str();
  CHECK(cores == "0110022");
  CHECK(resources.nodes.back().broker_rank == 9);
}

TEST_CASE("a shell rank is the place of a broker rank") {
  auto resources = Resources::from_json(document()).value();
  CHECK(resources.shell_rank(2) == 0U);
  CHECK(resources.shell_rank(4) == 2U);
  CHECK(resources.shell_rank(7) == 3U);
  CHECK_FALSE(resources.shell_rank(0));
  CHECK_FALSE(resources.shell_rank(5));
  CHECK_FALSE(resources.shell_rank(8));
}

TEST_CASE("a text that is no R") {
  CHECK(Resources::parse("nope").error().message.find("not JSON: line 1, column ") == 0);
  CHECK(Resources::parse("version: 1").error().message.find("not JSON") == 0);
  CHECK(Resources::parse("[]").error().message == "expected an object, got an array");
  CHECK(Resources::parse("{}").error().message == "missing key 'version'");
  CHECK(Resources::parse(document().dump()).value().nodes.size() == 4);
}

TEST_CASE("R of other versions, without its keys, or with other types") {
  CHECK(error_with_r("/version", 2) == "version: expected 1, got 2");
  CHECK(error_with_r("/version", "1") == "version: expected an integer, got \"1\"");
  CHECK(error_without_r("", "execution") == "missing key 'execution'");
  CHECK(error_without_r("/execution", "R_lite") == "execution: missing key 'R_lite'");
  CHECK(error_without_r("/execution/R_lite/1", "rank") == "execution.R_lite[1]: missing key 'rank'");
  CHECK(error_without_r("/execution/R_lite/1", "children") == "execution.R_lite[1]: missing key 'children'");
  CHECK(error_without_r("/execution/R_lite/0/children", "core") ==
        "execution.R_lite[0].children: missing key 'core'");
  CHECK(error_without_r("/execution/R_lite/0/children", "gpu") == "accepted");
  CHECK(error_with_r("/execution", 1) == "execution: expected an object, got 1");
  CHECK(error_with_r("/execution/R_lite", Json::object()) == "execution.R_lite: expected an array, got an object");
  CHECK(error_with_r("/execution/R_lite", Json::array()) ==
        "execution.R_lite: expected at least one entry, got none");
  CHECK(error_with_r("/execution/R_lite/0", "x") == "execution.R_lite[0]: expected an object, got \"x\"");
  CHECK(error_with_r("/execution/R_lite/0/rank", 0) == "execution.R_lite[0].rank: expected a string, got 0");
  CHECK(error_with_r("/execution/R_lite/0/children/core", Json::array({0})) ==
        "execution.R_lite[0].children.core: expected a string, got an array");
}

TEST_CASE("other keys, those of schedulers among them, are passed over") {
  CHECK(error_with_r("/scheduling", {{"writer", "fluxion:x"}, {"graph", 1}}) == "accepted");
  CHECK(error_with_r("/execution/extra", 1) == "accepted");
  CHECK(error_with_r("/execution/R_lite/0/children/memory", "0-7") == "accepted");
}

// ---- sets ------------------------------------------------------------------

TEST_CASE("malformed sets carry their path") {
  for (const char* bad : {"x", "1-", "-1", "3-1", "0-99999999999", "1,,2", "[0"}) {
    INFO(bad);
    CHECK(error_with_r("/execution/R_lite/1/rank", bad).find("execution.R_lite[1].rank: ") == 0);
    CHECK(error_with_r("/execution/R_lite/0/children/core", bad).find("execution.R_lite[0].children.core: ") == 0);
    CHECK(error_with_r("/execution/R_lite/0/children/gpu", bad).find("execution.R_lite[0].children.gpu: ") == 0);
    CHECK(error_with_r("/execution/properties", {{"p", bad}}).find("execution.properties.p: ") == 0);
  }
}

TEST_CASE("no ranks and no cores are errors, no gpus are none") {
  CHECK(error_with_r("/execution/R_lite/0/rank", "") ==
        "execution.R_lite[0].rank: expected at least one rank, got none");
  CHECK(error_with_r("/execution/R_lite/0/children/core", "") ==
        "execution.R_lite[0].children.core: expected at least one core, got none");
  CHECK(error_with_r("/execution/R_lite/0/children/gpu", "") == "accepted");
}

TEST_CASE("a rank is in one entry only") {
  CHECK(error_with_r("/execution/R_lite/1/rank", "0,7") == "execution.R_lite[1].rank: rank 7 is in R_lite twice");
  CHECK(error_with_r("/execution/R_lite/1/rank", "0-9") == "execution.R_lite[0].rank: rank 2 is in R_lite twice");
  CHECK(error_with_r("/execution/R_lite/1/rank", "2,7") == "execution.R_lite[1].rank: rank 2 is in R_lite twice");
}

TEST_CASE("ids on a node are bounded") {
  CHECK(error_with_r("/execution/R_lite/0/children/core", "0-65536") == "accepted");
  CHECK(error_with_r("/execution/R_lite/0/children/core", "0-65537") ==
        "execution.R_lite[0].children.core: id 65537; the largest may be 65536");
  CHECK(error_with_r("/execution/R_lite/0/children/gpu", "4294967294") ==
        "execution.R_lite[0].children.gpu: id 4294967294; the largest may be 65536");
}

TEST_CASE("the number of nodes is bounded", "[long]") {
  auto most =
      Resources::from_json(with_entries(Json::array({entry("0-1048574", "0"), entry("4294967294", "0")}))).value();
  CHECK(most.nodes.size() == Resources::kMaxNodes);
  CHECK(most.shell_rank(4294967294) == 1048575U);
  CHECK(
      Resources::from_json(with_entries(Json::array({entry("0", "0"), entry("1-1048576", "0")}))).error().message ==
      "execution.R_lite[1].rank: 1048577 ranks so far; at most 1048576");
  CHECK(Resources::from_json(with_entries(Json::array({entry("0-4294967294", "0")}))).error().message ==
        "execution.R_lite[0].rank: 4294967295 ranks so far; at most 1048576");
}

TEST_CASE("the ranges of ids on all nodes are bounded") {
  std::string cores = "0";
  for (int i = 2; i < 64; i += 2) cores += "," + std::to_string(i);  // 32 ranges
  CHECK(Resources::from_json(with_entries(Json::array({entry("0-524288", cores)}))).error().message ==
        "execution.R_lite[0]: 16777248 ranges of ids on all ranks so far; at most 16777216");
}

TEST_CASE("20,000 entries are read") {
  Json entries = Json::array();
  for (int i = 20000; i-- > 0;) entries.push_back(entry(std::to_string(2 * i), "0"));
  auto resources = Resources::from_json(with_entries(std::move(entries))).value();
  CHECK(resources.nodes.size() == 20000);
  CHECK(resources.shell_rank(39998) == 19999U);
}

// ---- names, properties, times ----------------------------------------------

TEST_CASE("there is a name for each rank") {
  const char* at = "/execution/nodelist";
  CHECK(error_with_r(at, Json::array({"a[1-3]"})) ==
        "execution.nodelist: expected one name for each rank of R_lite, got 3 for 4");
  CHECK(error_with_r(at, {"a[1-3]", "b[0-1]"}) ==
        "execution.nodelist: expected one name for each rank of R_lite, got 5 for 4");
  CHECK(error_with_r(at, Json::array()) ==
        "execution.nodelist: expected one name for each rank of R_lite, got 0 for 4");
  CHECK(error_with_r(at, "a[1-4]") == "execution.nodelist: expected an array, got \"a[1-4]\"");
  CHECK(error_with_r(at, Json::array({"a", 1})) == "execution.nodelist[1]: expected a string, got 1");
  CHECK(error_with_r(at, {"a", "b[0-"}).find("execution.nodelist[1]: ") == 0);
  CHECK(error_with_r(at, Json::array({"a[0-99999999999]"})).find("execution.nodelist[0]: ") == 0);
}

TEST_CASE("names may repeat, and may be left out") {
  Json changed = document();
  changed["execution"]["nodelist"] = {"n", "n", "n,m"};
  CHECK(names_of(Resources::from_json(changed).value()) == std::vector<std::string>{"n", "n", "n", "m"});
  changed["execution"].erase("nodelist");
  CHECK(names_of(Resources::from_json(changed).value()) == std::vector<std::string>{"", "", "", ""});
}

TEST_CASE("properties go to their ranks, with their suffixes") {
  Json changed = document();
  changed["execution"]["properties"] = {{"big", "2-4"}, {"amd-mi50@gpu", "7"}, {"+debug", "2,7"}, {"none", ""}};
  auto resources = Resources::from_json(changed).value();
  using Names = std::vector<std::string>;
  CHECK(resources.nodes[0].properties == Names{"+debug", "big"});
  CHECK(resources.nodes[1].properties == Names{"big"});
  CHECK(resources.nodes[2].properties == Names{"big"});
  CHECK(resources.nodes[3].properties == Names{"+debug", "amd-mi50@gpu"});
}

TEST_CASE("properties that are none") {
  const char* at = "/execution/properties";
  CHECK(error_with_r(at, {{"p", "2,5"}}) == "execution.properties.p: rank 5 is not in R_lite");
  CHECK(error_with_r(at, {{"p", "2-7"}}) == "execution.properties.p: rank 5 is not in R_lite");
  CHECK(error_with_r(at, {{"p", "0-4294967294"}}) == "execution.properties.p: rank 0 is not in R_lite");
  CHECK(error_with_r(at, {{"p", "7-8"}}) == "execution.properties.p: rank 8 is not in R_lite");
  CHECK(error_with_r(at, {{"p", 2}}) == "execution.properties.p: expected a string, got 2");
  CHECK(error_with_r(at, Json::array()) == "execution.properties: expected an object, got an array");
  for (const char* bad : {"", "a!", "a&b", "'", "\"", "^a", "`", "a|b", "a(", ")"}) {
    INFO(bad);
    CHECK(error_with_r(at, {{bad, "2"}}).find("execution.properties: expected a property's name, without ") == 0);
  }
}

TEST_CASE("the properties of all nodes are bounded", "[long]") {
  Json changed = with_entries(Json::array({entry("0-1048575", "0")}));
  for (const char* name : {"a", "b", "c", "d"}) changed["execution"]["properties"][name] = "0-1048575";
  changed["execution"]["properties"]["e"] = "0";
  CHECK(Resources::from_json(changed).error().message ==
        "execution.properties.e: 4194305 properties of ranks so far; at most 4194304");
}

TEST_CASE("times") {
  CHECK(error_with_r("/execution/expiration", 10) ==
        "execution.expiration: expected a time after starttime 10, got 10");
  CHECK(error_with_r("/execution/expiration", 9.5) ==
        "execution.expiration: expected a time after starttime 10, got 9.5");
  CHECK(error_with_r("/execution/expiration", 0) == "accepted");
  CHECK(error_with_r("/execution/starttime", 0) == "accepted");
  CHECK(error_with_r("/execution/expiration", -1) ==
        "execution.expiration: expected seconds since the epoch, not negative, got -1");
  CHECK(error_with_r("/execution/starttime", "now") == "execution.starttime: expected a number, got \"now\"");
  CHECK(error_with_r("/execution/nslots", 4) == "accepted");
  CHECK(error_with_r("/execution/nslots", 0) == "execution.nslots: expected a positive integer, got 0");
}

TEST_CASE("R without some of its nodes") {
  auto r = Resources::from_json(Json::parse(R"({"version": 1, "execution": {
      "R_lite": [{"rank": "3-5", "children": {"core": "0-1"}}, {"rank": "9", "children": {"core": "0", "gpu": "1"}}],
      "nodelist": ["n[3-5]", "big"], "properties": {"fast": "4-5", "large": "9"}, "starttime": 0, "expiration": 0}})"));
  REQUIRE(r);
  Json changed = nacre::job::without_nodes(*r, nacre::value::Idset::parse("1,3").value());
  auto again = Resources::from_json(changed);
  REQUIRE(again);
  REQUIRE(again->nodes.size() == 2);
  CHECK(again->nodes[0].hostname == "n3");
  CHECK(again->nodes[1].hostname == "n5");
  CHECK(again->nodes[1].broker_rank == 5);
  CHECK(changed["execution"]["properties"] == Json{{"fast", "5"}});
  CHECK(nacre::job::without_nodes(*r, {})["execution"]["R_lite"] == r->document["execution"]["R_lite"]);
}
