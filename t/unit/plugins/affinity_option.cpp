// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/affinity_option.hpp"

#include "catch.hpp"

using namespace nacre;
using plugins::AffinityOption;
using plugins::parse_affinity_set;
using plugins::share_of;
using Mode = AffinityOption::Mode;

namespace {

AffinityOption read(const Json& value) {
  auto option = AffinityOption::read(JsonAt::root(value, "cpu-affinity"), AffinityOption::Resource::cpus);
  INFO(dump_json(value) << (option ? "" : ": " + option.error().message));
  REQUIRE(option);
  return *option;
}

std::string error(const Json& value) {
  auto option = AffinityOption::read(JsonAt::root(value, "cpu-affinity"), AffinityOption::Resource::cpus);
  INFO(dump_json(value));
  REQUIRE_FALSE(option);
  return option.error().message;
}

std::string normal(std::string_view text) {
  auto parsed = parse_affinity_set(text);
  return parsed ? parsed->str() : parsed.error().message;
}

}  // namespace

TEST_CASE("an affinity option that is not set is on") {
  auto option = AffinityOption::read(std::nullopt, AffinityOption::Resource::cpus);
  REQUIRE(option);
  CHECK(option->mode == Mode::on);
  CHECK_FALSE(option->given);
  CHECK_FALSE(option->verbose);
  CHECK_FALSE(option->dry_run);
}

TEST_CASE("the modes of an affinity option") {
  CHECK(read("on").mode == Mode::on);
  CHECK(read("off").mode == Mode::off);
  CHECK(read("per-task").mode == Mode::per_task);
  CHECK(read("map:0").mode == Mode::map);
  CHECK(read("on").given);
  CHECK(read(1).mode == Mode::on);
  CHECK(read(true).mode == Mode::on);
  CHECK(read(0).mode == Mode::off);
  CHECK(read(false).mode == Mode::off);
}

TEST_CASE("verbose and dry-run come before the mode, in any order, or alone") {
  CHECK(read("verbose").mode == Mode::on);
  CHECK(read("verbose").verbose);
  CHECK_FALSE(read("verbose").dry_run);
  CHECK(read("dry-run").dry_run);
  CHECK(read("dry-run").verbose);
  CHECK(read("dry-run,verbose").dry_run);
  CHECK(read("verbose,dry-run,per-task").mode == Mode::per_task);
  CHECK(read("verbose,map:0,1;2").map[0].str() == "0-1");
  CHECK(error("per-task,verbose").starts_with("cpu-affinity: expected on, off, per-task, per-task:LEVEL ("));
}

TEST_CASE("an affinity option as an object") {
  CHECK(read({{"verbose", true}}).verbose);
  CHECK(read({{"verbose", 1}}).mode == Mode::on);
  CHECK(read({{"mode", "per-task"}, {"dry-run", true}}).mode == Mode::per_task);
  CHECK(read({{"mode", "per-task"}, {"dry-run", true}}).verbose);
  CHECK(read({{"mode", "map:3"}}).map[0].str() == "3");
  CHECK(read({{"mode", false}, {"verbose", true}}).mode == Mode::off);
  CHECK(read({{"mode", "dry-run,per-task"}, {"verbose", false}}).dry_run);
  CHECK(read(Json::object()).mode == Mode::on);
  CHECK(error({{"mode", "sideways"}}).starts_with("cpu-affinity.mode: expected on, off"));
  CHECK(error({{"verbose", "yes"}}) == "cpu-affinity.verbose: expected true or false, got \"yes\"");
  CHECK(error({{"loud", 1}}).starts_with("cpu-affinity"));
}

TEST_CASE("what is no affinity option is named") {
  for (const Json& value :
       {Json("sideways"), Json(""), Json("verbose,"), Json(2), Json(-1), Json(0.5), Json::array({1}), Json("ON")}) {
    CHECK(error(value).starts_with("cpu-affinity: expected on, off, per-task, per-task:LEVEL ("));
  }
}

TEST_CASE("a map has a set for each task and starts anew when it is through") {
  AffinityOption option = read("map:7;4-6");
  REQUIRE(option.map.size() == 2);
  CHECK(option.set_of(0).str() == "7");
  CHECK(option.set_of(1).str() == "4-6");
  CHECK(option.set_of(2).str() == "7");
  CHECK(option.set_of(5).str() == "4-6");
}

TEST_CASE("an entry of a map that is no set is named") {
  CHECK(error("map:0;x").starts_with("cpu-affinity: map: 'x': "));
  CHECK(error("map:0x0;1") == "cpu-affinity: map: '0x0': the set is empty; a set is written 0-3,7 or 0x8f");
  CHECK(error("map:").starts_with("cpu-affinity: map: '': "));
  CHECK(error("map:0;").starts_with("cpu-affinity: map: '': "));
}

TEST_CASE("sets as lists") {
  CHECK(normal("0") == "0");
  CHECK(normal("0-3,7") == "0-3,7");
  CHECK(normal("7,0-3") == "0-3,7");
  CHECK(normal("1,1") == "1");
  CHECK(normal("4-") == "4-65535");
  CHECK(normal("0,65534-") == "0,65534-65535");
  CHECK(normal("65535") == "65535");
}

TEST_CASE("sets as masks, in words and in one") {
  CHECK(normal("0x1") == "0");
  CHECK(normal("0xff") == "0-7");
  CHECK(normal("0xF0f") == "0-3,8-11");
  CHECK(normal("0xf,0xf") == "0-3,32-35");
  CHECK(normal("0x00ffffff,,,0x00ffffff") == "0-23,96-119");
  CHECK(normal("0x3fff0000,,,0x00003fff") == "0-13,112-125");
  CHECK(normal("0x1,00000000") == "32");
  CHECK(normal("0x100000000") == "32");
  CHECK(normal("0x00000000000000000000000000000001") == "0");
}

TEST_CASE("sets that are none") {
  for (const char* text : {"", ",", "1,", ",1", "x", "1-x", "3-1", "-1", "-", "0x", "0xg", "0x1,0xg",
                           "0x1,123456789", "0x0", "0x0,0x0", "1;2", "1 2", "all", "0x1-3"}) {
    INFO(text);
    CHECK_FALSE(parse_affinity_set(text));
  }
}

TEST_CASE("sets beyond the limit are refused before they are built") {
  CHECK(parse_affinity_set("65536").error().code == ERANGE);
  CHECK(parse_affinity_set("0-4000000000").error().code == ERANGE);
  CHECK(normal("0x8" + std::string(65536 / 4 - 1, '0')) == "65535");
  CHECK(parse_affinity_set("0x1" + std::string(65536 / 4, '0')).error().code == ERANGE);
  CHECK(normal("0x80000000" + std::string(65536 / 32 - 1, ',')) == "65535");
  CHECK(parse_affinity_set("0x1" + std::string(65536 / 32, ',')).error().code == ERANGE);
}

TEST_CASE("shares are even and leave nothing out") {
  using Share = std::pair<std::size_t, std::size_t>;
  CHECK(share_of(0, 1, 8) == Share(0, 8));
  CHECK(share_of(0, 4, 8) == Share(0, 2));
  CHECK(share_of(3, 4, 8) == Share(6, 8));
  CHECK(share_of(0, 3, 8) == Share(0, 2));
  CHECK(share_of(1, 3, 8) == Share(2, 5));
  CHECK(share_of(2, 3, 8) == Share(5, 8));
  CHECK(share_of(0, 3, 0) == Share(0, 0));
}

TEST_CASE("more tasks than things share them evenly") {
  std::vector<std::size_t> firsts;
  for (std::size_t task = 0; task < 5; ++task) {
    auto [first, last] = share_of(task, 5, 2);
    CHECK(last == first + 1);
    firsts.push_back(first);
  }
  CHECK(firsts == std::vector<std::size_t>{0, 0, 0, 1, 1});
}

TEST_CASE("per-task may have a level, of cpus only; closest is for gpus only") {
  using plugins::CpuLevel;
  CHECK(read("per-task").level == CpuLevel::core);
  CHECK(read("per-task:l3").level == CpuLevel::l3);
  CHECK(read("per-task:l3").mode == Mode::per_task);
  CHECK(read(Json{{"mode", "verbose,per-task:package"}}).level == CpuLevel::package);
  CHECK(error("closest").starts_with(
      "cpu-affinity: expected on, off, per-task, per-task:LEVEL (thread, core, l3, numa, "
      "package) or map:LIST"));
  CHECK(error("per-task:socket").ends_with(R"(got "per-task:socket")"));
  Json closest = "verbose,closest";
  Json level = "per-task:numa";
  auto gpus = [](const Json& value) {
    return AffinityOption::read(JsonAt::root(value, "gpu-affinity"), AffinityOption::Resource::gpus);
  };
  REQUIRE(gpus(closest));
  CHECK(gpus(closest)->mode == Mode::closest);
  CHECK_FALSE(gpus(level));
}

TEST_CASE("mem-affinity and nic-affinity are words, off by default") {
  CHECK(plugins::read_mem_affinity(std::nullopt) == "off");
  for (const Json& value : {Json("off"), Json(0), Json(false)})
    CHECK(plugins::read_mem_affinity(JsonAt::root(value, "mem-affinity")) == "off");
  Json interleave = "interleave";
  CHECK(plugins::read_mem_affinity(JsonAt::root(interleave, "mem-affinity")) == "interleave");
  Json one = 1;
  auto wrong = plugins::read_mem_affinity(JsonAt::root(one, "mem-affinity"));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "mem-affinity: expected bind, prefer, interleave or off, got 1");
  Json closest = "closest";
  CHECK(plugins::read_nic_affinity(JsonAt::root(closest, "nic-affinity")) == "closest");
}
