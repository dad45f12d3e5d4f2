// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <thread>

#include "catch.hpp"

#include "base/json.hpp"
#include "boot/make_resources.hpp"
#include "job/resources.hpp"
#include "variables_of.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::kit;     // NOLINT
using namespace nacre::boot;    // NOLINT
using namespace nacre::launch;  // NOLINT
using value::Idset;

namespace {

NodeOffer offer_of(std::string host, std::string_view cores, std::string_view gpus = "") {
  return {std::move(host), Idset::parse(cores).value(), Idset::parse(gpus).value()};
}

// "host:cores/gpus ...", as our own reader of R sees it.
std::string made_of(const std::vector<NodeOffer>& offers) {
  auto json = make_resources(offers);
  if (!json) return json.error().message;
  auto resources = job::Resources::from_json(*json);
  if (!resources) return resources.error().message;
  std::string out;
  for (const job::NodeResources& node : resources->nodes) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : " ", node.hostname, node.cores.str());
    if (!node.gpus.empty()) out += "/" + node.gpus.str();
  }
  return out;
}

}  // namespace

TEST_CASE("R of a shell a host has what each offers, under the hosts' names") {
  CHECK(made_of({offer_of("n1", "0-3")}) == "n1:0-3");
  CHECK(made_of({offer_of("n2", "0-3"), offer_of("n1", "0-3", "0-1"), offer_of("n3", "5,7")}) ==
        "n2:0-3 n1:0-3/0-1 n3:5,7");
  Json json = make_resources({offer_of("n1", "0-3"), offer_of("n2", "0-3"), offer_of("n3", "0-1")}).value();
  CHECK(json == Json::parse(R"({"version": 1, "execution": {
    "R_lite": [{"rank": "2", "children": {"core": "0-1"}}, {"rank": "0-1", "children": {"core": "0-3"}}],
    "nodelist": ["n[1-3]"], "starttime": 0, "expiration": 0}})"));
  CHECK(made_of({}) == "R is made for 1 to 1048576 shells, not for 0");
}

TEST_CASE("shells of one host that offer the same share it out") {
  CHECK(made_of({offer_of("a", "0-7", "0-1"), offer_of("a", "0-7", "0-1")}) == "a:0-3/0 a:4-7/1");
  CHECK(made_of({offer_of("a", "0-4"), offer_of("b", "0-4"), offer_of("a", "0-4")}) == "a:0-1 b:0-4 a:2-4");
  CHECK(made_of({offer_of("a", "1,3,5"), offer_of("a", "1,3,5"), offer_of("a", "1,3,5")}) == "a:1 a:3 a:5");
}

TEST_CASE("with fewer cores than shells each has one; with fewer gpus the last have none") {
  CHECK(made_of({offer_of("a", "0-1", "4"), offer_of("a", "0-1", "4"), offer_of("a", "0-1", "4")}) ==
        "a:0/4 a:1 a:0");
}

TEST_CASE("shells whose manager has given each its own cores keep them") {
  CHECK(made_of({offer_of("a", "0-1", "0-1"), offer_of("a", "2-3", "0-1")}) == "a:0-1/0 a:2-3/1");
}

TEST_CASE("an offer is one line, and read strictly") {
  NodeOffer offer = offer_of("n1.site", "0-3,8", "1");
  CHECK(offer.text() == R"({"cores":"0-3,8","gpus":"1","hostname":"n1.site"})");
  CHECK(NodeOffer::parse(offer.text()).value() == offer);
  auto refused = [](const char* text) { return error_of(NodeOffer::parse(text)); };
  CHECK(refused(R"({"cores":"0","gpus":""})") == "what a shell offers: missing key 'hostname'");
  CHECK(refused(R"({"cores":"","gpus":"","hostname":"a"})") ==
        "what a shell offers: cores: expected at least one core");
  CHECK_THAT(refused(R"({"cores":"0","gpus":"","hostname":"a[0-1]"})"),
             Catch::Matchers::ContainsSubstring("the name of a host"));
  CHECK_THAT(refused(R"({"cores":"0-70000","gpus":"","hostname":"a"})"),
             Catch::Matchers::ContainsSubstring("the largest may be 65536"));
  CHECK_THAT(refused(R"({"cores":"0","gpus":"","hostname":"a","x":1})"), Catch::Matchers::ContainsSubstring("x"));
  CHECK_THAT(refused("{"), Catch::Matchers::StartsWith("what a shell offers: not JSON: line 1"));
}

TEST_CASE("a shell offers the cores that it may use, and no others") {
  NodeOffer whole = own_offer(variables_of({{"CUDA_VISIBLE_DEVICES", "1"}})).value();
  CHECK_FALSE(whole.hostname.empty());
  CHECK(whole.gpus.str() == "1");
  // In another thread, so that this thread keeps its mask.
  std::uint64_t cores = 0;
  bool bound = false;
  std::thread([&] {
    Idset allowed = task::read_cpu_rights().value().allowed;
    task::CpuMask mask = task::mask_of(Idset::range(*allowed.last(), *allowed.last()));
    bound = ::sched_setaffinity(0, mask.size() * sizeof mask[0], reinterpret_cast<cpu_set_t*>(mask.data())) == 0;
    cores = own_offer(variables_of({})).value().cores.size();
  }).join();
  REQUIRE(bound);
  CHECK(cores == 1);
}

TEST_CASE("the text of an offer") {
  CHECK(offer_of("n1", "0-3,7", "1").text() == R"({"cores":"0-3,7","gpus":"1","hostname":"n1"})");
  auto why = [](const char* text) {
    auto read = NodeOffer::parse(text);
    return read ? "fine" : read.error().message;
  };
  CHECK(why(R"({"hostname":"n1","cores":"0","gpus":""})") == "fine");
  CHECK(why(R"({"hostname":"n1","cores":"","gpus":""})") ==
        "what a shell offers: cores: expected at least one core");
  CHECK(why(R"({"hostname":"n[1-2]","cores":"0","gpus":""})") ==
        R"(what a shell offers: hostname: expected the name of a host, got "n[1-2]")");
  CHECK(why(R"({"hostname":"n1","cores":"0","gpus":"","more":1})") ==
        "what a shell offers: more: unknown key; known: hostname, cores, gpus");
}
