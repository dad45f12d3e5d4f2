// SPDX-License-Identifier: Apache-2.0
//
// Where the processes of a spawn run, and the shells' messages about it.
#include "plugins/pmi/spawn_order.hpp"

#include <fmt/ranges.h>
#include "catch.hpp"

#include "fake_host.hpp"
#include "pmi/key_exchange.hpp"

using namespace nacre;
using plugins::place_spawn;
using plugins::SpawnOrder;
using plugins::SpawnRoom;
using plugins::SpawnRound;
using plugins::SpawnRounds;

namespace {

pmi::SpawnProgram program(std::uint32_t processes, pmi::Entries info = {}) {
  return {processes, {"program"}, std::move(info)};
}

// "0 0 1" or the error. Shells 0 to 3, on hosts a to c and c again, have 1, 0, 2 and no room.
std::string placed(std::vector<pmi::SpawnProgram> programs, std::uint32_t asker) {
  std::vector<SpawnRoom> rooms{{0, "a", 1}, {1, "b", 0}, {2, "c", 2}, {3, "c", std::nullopt}};
  auto places = place_spawn({std::move(programs), {}}, rooms, asker);
  return places ? fmt::format("{}", fmt::join(*places, " ")) : places.error().message;
}

SpawnOrder some_order() {
  SpawnOrder order;
  order.start = 2;
  order.shell = 3;
  order.request = 4;
  order.task = 5;
  order.spawner = "nacre_1";
  order.setup.limits.push_back({RLIMIT_CORE, {0, RLIM_INFINITY}});
  order.setup.settings.of<task::OomScore>() = "300";
  order.setup.settings.of<task::Scheduler>() = 3;
  order.setup.new_session = true;
  order.spawn.preput = {{"port", std::string("a\0b", 3)}, {"k", ""}};
  order.spawn.programs = {{2, {"a", "", "x y"}, {{"wdir", "/tmp"}, {"host", "a,b"}}}, {0, {"b"}, {}}};
  return order;
}

// Two nodes with two cores each, and a task on each; this is shell 1.
constexpr std::string_view kTwoSpawningNodes =
    R"({"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children":
  {"core": "0-1"}}], "starttime": 0, "expiration": 0, "nodelist": ["fake[0-1]"]}})";

struct Rounds {
  Rounds() {
    rounds.begin(plugins::PmiStart::of_job(host), true);
    heard = host.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == SpawnRounds::kTopic) rounds.announced(bytes);
    });
  }
  void spawn(std::uint32_t processes) {
    SpawnOrder order;
    order.spawn.programs = {program(processes)};
    REQUIRE(rounds.announce(order));
  }

  kit::FakeHost host{kit::jobspec_of(2), kTwoSpawningNodes, 1};
  std::vector<std::string> said;
  std::string elsewhere = "+";  // the other shell's message about its start
  SpawnRounds rounds{host,
                     {[this] {
                        host.gathers_elsewhere = {{"1", value::Idset::range(0, 0)}};
                        return std::optional<std::uint32_t>(1);
                      },
                      [this](const SpawnRound& round) -> Result<void> {
                        said.push_back(fmt::format("start {} of {}", fmt::join(round.places, " "), round.name()));
                        host.gathers_elsewhere = {};
                        if (!elsewhere.empty()) host.gathers_elsewhere[elsewhere] = value::Idset::range(0, 0);
                        return {};
                      },
                      [this](const SpawnRound&, const Result<void>& outcome) {
                        said.push_back(outcome ? "runs" : outcome.error().message);
                      }}};
  plugin::Registration heard;
};

}  // namespace

TEST_CASE(
    "the universe of spawned processes is they, and as many as have cores free beside them; none if there are "
    "none") {
  const std::vector<SpawnRoom> rooms{{0, "a", 1}, {1, "b", 0}, {2, "c", 2}, {3, "c", std::nullopt}};
  CHECK(plugins::universe_of_spawn({0, 2}, rooms) == 3U);
  CHECK(plugins::universe_of_spawn({1, 1}, rooms) == 5U);
  CHECK_FALSE(plugins::universe_of_spawn({0, 2, 2}, rooms));
  CHECK_FALSE(plugins::universe_of_spawn({0, 0, 1, 2, 2, 2}, rooms));
}

TEST_CASE("places: cores that are free, those of the asking shell first, then of those behind it, in turn") {
  CHECK(placed({program(1)}, 0) == "0");
  CHECK(placed({program(3)}, 0) == "0 2 2");
  CHECK(placed({program(3)}, 2) == "2 2 0");
  CHECK(placed({program(1)}, 1) == "2");
}

TEST_CASE("places: what finds no free core is spread evenly over the shells that take processes") {
  CHECK(placed({program(6)}, 0) == "0 0 1 2 2 2");
  CHECK(placed({program(7)}, 1) == "1 1 2 2 2 0 0");
}

TEST_CASE("places: each program is placed behind the one before it") {
  CHECK(placed({program(1), program(2), program(1)}, 0) == "0 2 2 0");
}

TEST_CASE("places: the ranks that are on a shell") {
  CHECK(plugins::ranks_placed_on({0, 2, 2, 0, 0}, 0).str() == "0,3-4");
  CHECK(plugins::ranks_placed_on({0, 2, 2, 0, 0}, 2).str() == "1-2");
  CHECK(plugins::ranks_placed_on({0, 2, 2, 0, 0}, 1).empty());
}

TEST_CASE("places: hosts that a program names, also where no core is free") {
  CHECK(placed({program(2, {{"host", "b"}})}, 0) == "1 1");
  CHECK(placed({program(2, {{"hosts", "b, a"}})}, 2) == "1 0");
  CHECK(placed({program(1, {{"host", "localhost"}})}, 1) == "1");
  CHECK(placed({program(3, {{"host", "c"}})}, 0) == "2 2 2");
  CHECK(placed({program(1, {{"host", "a,d"}})}, 0) == "info key host: 'd' is no host of the job, which has a,b,c");
  CHECK(placed({program(0)}, 0) == "expected one process or more");
  auto none = place_spawn({{program(1)}, {}}, {{0, "a", std::nullopt}}, 0);
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "'program': no shell that may run it takes processes any more");
}

TEST_CASE("an order to spawn comes out of its bytes as it was") {
  SpawnOrder order = some_order();
  auto same = SpawnOrder::decode(order.encode());
  REQUIRE(same);
  CHECK(same->encode() == order.encode());
  CHECK(same->start == 2);
  CHECK(same->shell == 3);
  CHECK(same->request == 4);
  CHECK(same->task == 5);
  CHECK(same->spawner == "nacre_1");
  CHECK_FALSE(same->by_pmix());
  REQUIRE(same->setup.limits.size() == 1);
  CHECK(same->setup.limits[0].resource == RLIMIT_CORE);
  CHECK(same->setup.limits[0].value.rlim_max == RLIM_INFINITY);
  CHECK(same->setup.settings.of<task::OomScore>() == "300");
  CHECK(same->setup.settings.of<task::Scheduler>() == 3);
  CHECK(same->setup.new_session);
  CHECK(same->spawn.preput == order.spawn.preput);
  REQUIRE(same->spawn.programs.size() == 2);
  CHECK(same->spawn.programs[0].argv == order.spawn.programs[0].argv);
  CHECK(same->spawn.programs[0].info == order.spawn.programs[0].info);
  CHECK(same->spawn.programs[1].processes == 0);
}

TEST_CASE("the bytes of an order to spawn") {
  SpawnOrder order = some_order();
  pmi::Entries own{{"start", "2"}, {"shell", "3"}, {"request", "4"}, {"task", "5"}, {"spawner", "nacre_1"}};
  const pmi::Entries rest{{fmt::format("limit {}", RLIMIT_CORE), fmt::format("0 {}", RLIM_INFINITY)},
                          {"oom", "300"},
                          {"scheduler", "3"},
                          {"session", ""},
                          {"preput port", std::string("a\0b", 3)},
                          {"preput k", ""},
                          {"program", "2"},
                          {"argument", "a"},
                          {"argument", ""},
                          {"argument", "x y"},
                          {"info wdir", "/tmp"},
                          {"info host", "a,b"},
                          {"program", "0"},
                          {"argument", "b"}};
  auto bytes_of = [&] {
    pmi::Entries all = own;
    all.insert(all.end(), rest.begin(), rest.end());
    return pmi::encode_entries(all);
  };
  CHECK(order.encode() == bytes_of());
  order.library = plugins::kPmixLibrary;
  order.client = 6;
  own.insert(own.end(), {{"library", "pmix"}, {"client", "6"}});
  CHECK(order.encode() == bytes_of());
  task::ChildSetup copy;
  plugins::copy_common_setup(order.setup, copy);
  SpawnOrder same = order;
  same.setup = copy;
  CHECK(same.encode() == order.encode());
}

TEST_CASE("an order to spawn by PMIx has the library, and the rank of the process") {
  SpawnOrder order = some_order();
  order.library = plugins::kPmixLibrary;
  order.client = 6;
  auto same = SpawnOrder::decode(order.encode());
  REQUIRE(same);
  CHECK(same->by_pmix());
  CHECK(same->client == 6);
}

TEST_CASE("bytes that are no order to spawn are refused") {
  const pmi::Entries good{{"start", "1"}, {"program", "1"}, {"argument", "a"}};
  REQUIRE(SpawnOrder::decode(pmi::encode_entries(good)));
  for (const pmi::Entries& wrong :
       std::vector<pmi::Entries>{{},
                                 {{"program", "1"}},
                                 {{"argument", "a"}},
                                 {{"program", "5000"}, {"argument", "a"}},
                                 {{"program", "-1"}, {"argument", "a"}},
                                 {{"limit 999", "0 0"}, {"program", "1"}, {"argument", "a"}},
                                 {{"limit 1", "0"}, {"program", "1"}, {"argument", "a"}},
                                 {{"start", "x"}, {"program", "1"}, {"argument", "a"}},
                                 {{"library", "other"}, {"program", "1"}, {"argument", "a"}},
                                 {{"client", "x"}, {"program", "1"}, {"argument", "a"}},
                                 {{"color", "red"}, {"program", "1"}, {"argument", "a"}}}) {
    CHECK_FALSE(SpawnOrder::decode(pmi::encode_entries(wrong)));
  }
  std::string bytes = some_order().encode();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    auto cut = SpawnOrder::decode(std::string_view(bytes).substr(0, size));
    if (cut) CHECK(cut->spawn.programs.size() < 3);
  }
}

TEST_CASE("rounds: all shells say what room they have, start what is theirs, and say whether they could") {
  Rounds job;
  job.spawn(2);
  job.spawn(1);
  using Texts = std::vector<std::string>;
  CHECK(job.said == Texts{"start 1 0 of pmi.spawn.1.1", "runs", "start 1 of pmi.spawn.1.2", "runs"});
  CHECK(job.host.gathers.at("pmi.spawn.1.1.room") == "1");
  CHECK(job.host.gathers.at("pmi.spawn.1.1.started") == "+");
  CHECK(job.host.gathered_up_to == 1);
}

TEST_CASE("rounds: what another shell cannot start, or a shell that is lost meanwhile, is the same error for all") {
  Rounds job;
  job.elsewhere = "!2 /no/such: No such file or directory";
  job.spawn(2);
  CHECK(job.said.back() == "/no/such: No such file or directory on fake0");
  job.elsewhere = "";
  job.spawn(2);
  CHECK(job.said.back() == "shell 0 on fake0 is lost");
  job.spawn(1);  // the group has no process there
  CHECK(job.said.back() == "runs");
}

TEST_CASE("rounds: requests of an earlier start of the tasks are not performed any more") {
  Rounds job;
  SpawnOrder order;
  order.start = 1;
  order.spawn.programs = {program(1)};
  std::string bytes = order.encode();
  plugins::PmiStart again = plugins::PmiStart::of_job(job.host);
  again.number = 2;
  job.rounds.begin(again, true);
  job.host.announced(SpawnRounds::kTopic, bytes);
  CHECK(job.said.empty());
  job.spawn(1);
  CHECK(job.said.front() == "start 1 of pmi.spawn.2.1");
}
