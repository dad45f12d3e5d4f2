// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

// The builtin, and a plugin that keeps what comes to shell.log.
struct Offered {
  Offered() {
    host.stack().push(plugins::make_log(host));
    auto keeper = std::make_unique<plugin::Plugin>("keeper");
    keeper->on("shell.log", [this](plugin::Call& call) -> Result<void> {
      kept.push_back(call.in);
      return answer();
    });
    host.stack().push(std::move(keeper));
  }

  kit::FakeHost host;
  std::vector<Json> kept;
  std::function<Result<void>()> answer = [] { return Result<void>(); };
};

}  // namespace

TEST_CASE("a message comes to shell.log with all that is known of it") {
  Offered offered;
  offered.host.log().post({Level::warn, "hwloc", "hwloc.cpp", 42, "no cores"});
  REQUIRE(offered.kept.size() == 1);
  CHECK(offered.kept[0] == Json::parse(R"({"rank": 0, "level": 4, "component": "hwloc", "file": "hwloc.cpp",
                                           "line": 42, "message": "no cores"})"));
}

TEST_CASE("the rank is that of the shell") {
  kit::FakeHost host(kit::jobspec_of(2), kit::fake_nodes(2, 1), 1);
  host.stack().push(plugins::make_log(host));
  Json rank;
  auto keeper = std::make_unique<plugin::Plugin>("keeper");
  keeper->on("shell.*", [&rank](plugin::Call& call) {
    rank = call.in["rank"];
    return Result<void>();
  });
  host.stack().push(std::move(keeper));
  host.log().log(Level::notice, "", "text");
  CHECK(rank == 1);
}

TEST_CASE("each level has its number") {
  Offered offered;
  for (Level level : {Level::fatal, Level::error, Level::warn, Level::notice, Level::debug, Level::trace}) {
    offered.host.log().log(level, "", "text");
  }
  std::vector<int> levels;
  for (const Json& each : offered.kept) levels.push_back(each.at("level").get<int>());
  CHECK(levels == std::vector{0, 3, 4, 5, 6, 7});
}

TEST_CASE("messages that are not logged do not come to shell.log") {
  Offered offered;
  offered.host.log().set_level(Level::notice);
  offered.host.log().log(Level::debug, "", "text");
  CHECK(offered.kept.empty());
}

TEST_CASE("shell.log takes nothing away: the message goes to the other places too") {
  Offered offered;
  offered.host.log().log(Level::notice, "me", "text");
  CHECK(offered.host.logged == std::vector<std::string>{"notice me: text"});
}

TEST_CASE("what a handler of shell.log logs goes to the other places only") {
  Offered offered;
  offered.answer = [&offered] {
    offered.host.log().log(Level::warn, "keeper", "disk full");
    return Result<void>();
  };
  offered.host.log().log(Level::notice, "me", "text");
  CHECK(offered.kept.size() == 1);
  CHECK(offered.host.logged == std::vector<std::string>{"notice me: text", "warn keeper: disk full"});
}

TEST_CASE("a handler of shell.log that fails is a warning") {
  Offered offered;
  offered.answer = []() -> Result<void> { return invalid("disk full"); };
  offered.host.log().log(Level::notice, "me", "text");
  CHECK(offered.kept.size() == 1);
  CHECK(offered.host.logged ==
        std::vector<std::string>{"notice me: text", "warn log: plugin 'keeper': shell.log: disk full"});
}

TEST_CASE("a plugin named log replaces the builtin: nothing comes to shell.log any more") {
  Offered offered;
  offered.host.stack().push(std::make_unique<plugin::Plugin>("log"));
  offered.host.log().log(Level::notice, "me", "text");
  CHECK(offered.kept.empty());
  CHECK(offered.host.logged == std::vector<std::string>{"notice me: text"});
}

TEST_CASE("with nobody to listen a message is just logged") {
  kit::FakeHost host;
  host.stack().push(plugins::make_log(host));
  host.log().log(Level::notice, "me", "text");
  CHECK(host.logged == std::vector<std::string>{"notice me: text"});
}

TEST_CASE("a handler of shell.log may replace the plugin that calls it, and fail") {
  Offered offered;
  offered.answer = [&]() -> Result<void> {
    offered.host.stack().push(std::make_unique<plugin::Plugin>("log"));
    return invalid("no disk");
  };
  offered.host.log().log(Level::notice, "", "message");
  CHECK(offered.kept.size() == 1);
  REQUIRE(offered.host.logged.size() == 2);
  CHECK(offered.host.logged[1] == "warn log: plugin 'keeper': shell.log: no disk");
  offered.host.log().log(Level::notice, "", "not offered any more");
  CHECK(offered.kept.size() == 1);
}
