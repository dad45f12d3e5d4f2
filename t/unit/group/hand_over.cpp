// SPDX-License-Identifier: Apache-2.0
//
// The leader is lost, and the others go on with another one.

#include "group/overlay_driver.hpp"
#include "group_world.hpp"

namespace nacre::group {
namespace {

struct Followers {
  explicit Followers(World& of) : world(of) {
    world.start_all();
    for (Rank rank = 0; rank < world.size; ++rank) {
      FakeShell& shell = world.shells[rank];
      shell.member->hand_over(false, 1);
      Group::Callbacks callbacks = World::callbacks(shell);
      callbacks.on_leader = [this, rank](Rank leader) { told[rank].push_back(fmt::format("leader {}", leader)); };
      callbacks.on_leading = [this, rank] { told[rank].emplace_back("leading"); };
      callbacks.on_lost = [this, rank](Rank lost) { told[rank].push_back(fmt::format("lost {}", lost)); };
      callbacks.on_announcement = [this, rank](std::string_view topic, std::string_view bytes) {
        told[rank].push_back(fmt::format("{} {}", topic, bytes));
      };
      shell.member->serve(std::move(callbacks));
    }
    world.pass("init");
  }
  // Whether all shells that are left have been told `count` things.
  [[nodiscard]] bool have(std::size_t count) const {
    for (Rank rank = 0; rank < world.size; ++rank) {
      auto found = told.find(rank);
      if (world.shells[rank].member && (found == told.end() || found->second.size() < count)) return false;
    }
    return true;
  }

  World& world;
  std::map<Rank, std::vector<std::string>> told;
};

using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("the leader is lost: all hear who leads now, and who that is gets the ends of all tasks") {
  World world(5);
  Followers followers(world);
  for (Rank rank = 0; rank < world.size; ++rank) {
    world.shells[rank].member->tasks_started(value::Idset::range(rank, rank));
    if (rank != 2)
      world.shells[rank].member->tasks_ended({value::Idset::range(rank, rank), exits::Record::gone({})});
  }
  world.run_until([&] { return world.shells[0].ended.ranks().size() == 4; });
  CHECK(world.shells[1].ended.ranks().empty());
  world.shells[0].member.reset();
  world.run_until([&] { return followers.have(2); });
  for (Rank rank : {2, 3, 4}) {
    CHECK(followers.told[rank] == Told{"leader 1", "lost 0"});
    CHECK(world.shells[rank].ended.ranks().empty());
    CHECK(world.shells[rank].member->leader() == 1);
  }
  world.run_until([&] { return followers.told[1].size() == 3; });
  CHECK(followers.told[1] == Told{"leader 1", "leading", "lost 0"});
  CHECK(world.shells[1].ended.ranks().str() == "1,3-4");
  CHECK(world.shells[1].started.str() == "1-4");
  // From then on all is as before.
  REQUIRE(world.shells[4].member->announce("topic", "text"));
  world.run_until([&] { return followers.have(3); });
  CHECK(followers.told[3].back() == "topic text");
  world.pass("exit");
  world.leave();
}

TEST_CASE("what the lost leader had not taken comes to the next one, each record once and in order") {
  World world(4);
  Followers followers(world);
  std::map<bulk::Id, std::string> came;
  bool takes = true;
  auto serve = [&](Rank rank) {
    bulk::Port& port = *world.shells[rank].member->bulk();
    bulk::Port::Upward upward;
    upward.on_record = [&, rank](bulk::Id origin, bulk::Numbered number, std::string_view bytes) {
      if (!takes) return;
      came[origin] += bytes.empty() ? "." : bytes;
      world.shells[rank].member->bulk()->taken(origin, number);
    };
    port.serve(bulk::up::kOutput, std::move(upward));
  };
  for (Rank rank = 0; rank < world.size; ++rank) serve(rank);
  auto put = [&](const char* text) {
    for (Rank rank : {1, 2, 3}) CHECK(world.shells[rank].member->bulk()->put(bulk::up::kOutput, text).value());
  };
  put("a");
  world.run_until([&] { return came.size() == 3; });
  world.pass("what was taken is known");
  takes = false;
  put("b");
  put("c");
  world.pass("all has come");
  world.shells[0].member.reset();
  takes = true;
  put("d");
  world.run_until([&] { return followers.have(2); });
  for (Rank rank : {1, 2, 3}) world.shells[rank].member->close_bulk();
  world.run_until([&] {
    return std::all_of(came.begin(), came.end(), [](const auto& each) { return each.second.ends_with('.'); });
  });
  for (Rank rank : {1, 2, 3}) CHECK(came[rank] == "abcd.");
  world.leave();
}

TEST_CASE("an order, a barrier and an end go on under the next leader, and it may be lost, too") {
  World world(5);
  Followers followers(world);
  std::size_t passed = 0;
  for (Rank rank : {2, 3, 4})
    world.shells[rank].member->enter("late", [&](const Result<void>& result) { passed += result ? 1 : 0; });
  world.shells[0].member.reset();
  world.run_until([&] { return followers.have(2); });
  world.shells[1].member->enter("late", [&](const Result<void>& result) { passed += result ? 1 : 0; });
  world.run_until([&] { return passed == 4; });
  world.shells[1].member.reset();
  world.run_until([&] { return followers.have(4); });
  const Rank leader = world.shells[2].member->leader();
  CHECK(leader != 1);
  CHECK(world.all([&](const FakeShell& shell) { return shell.member->leader() == leader; }));
  world.leave();
}

TEST_CASE("the next leader takes in new shells, and one of these leads once others are lost") {
  World world(7);
  Followers followers(world);
  auto lose = [&](Rank leader, Rank next) {
    world.shells[leader].member.reset();
    world.run_until(
        [&] { return world.all([&](const FakeShell& shell) { return shell.member->leader() == next; }); });
  };
  lose(0, 1);
  CHECK(world.shells[1].member->first_unused() == 7);
  std::optional<Result<value::Grown>> end;
  world.shells[1].member->grow(value::Idset::range(7, 8), std::chrono::milliseconds(60'000),
                               [&](Result<value::Grown> grown) { end = std::move(grown); });
  for (int i = 0; i < 2; ++i) world.start_newcomer(Over::local, 1);
  world.run_until([&] { return end.has_value(); });
  CHECK((*end)->joined.str() == "7-8");
  CHECK(world.shells[2].member->first_unused() == 9);
  // The last one has the place of who leads.
  lose(1, 6);
  lose(6, 8);
  world.leave();
}

// The leader tells its own owner of an entry once all members have it, but some members act on it before.
TEST_CASE("what a shell puts because of an announcement comes to the leader behind that") {
  World world(5);
  Followers followers(world);
  Told& told = followers.told[0];
  for (Rank rank = 0; rank < world.size; ++rank) {
    Group::Callbacks callbacks = World::callbacks(world.shells[rank]);
    callbacks.on_announcement = [&, rank](std::string_view, std::string_view bytes) {
      if (rank == 0) return told.push_back(fmt::format("announced {}", bytes));
      CHECK(world.shells[rank].member->bulk()->put(bulk::up::kOutput, bytes).value());
    };
    world.shells[rank].member->serve(std::move(callbacks));
    bulk::Port::Upward upward;
    upward.on_record = [&](bulk::Id origin, bulk::Numbered number, std::string_view bytes) {
      told.push_back(fmt::format("done {}", bytes));
      world.shells[0].member->bulk()->taken(origin, number);
    };
    world.shells[rank].member->bulk()->serve(bulk::up::kOutput, std::move(upward));
  }
  for (int i = 0; i < 50; ++i) {
    told.clear();
    REQUIRE(world.shells[0].member->announce("do", std::to_string(i)));
    world.run_until([&] { return told.size() == 5; });
    CHECK(told.front() == fmt::format("announced {}", i));
  }
  world.leave();
}

TEST_CASE("of two shells the one that is left ends") {
  overlay::OverlayOptions bounds;
  bounds.fence = overlay::milliseconds(6000);
  World world(2, Over::local, bounds);
  Followers followers(world);
  world.shells[0].member.reset();
  world.run_until([&] { return !world.shells[1].cut_off.empty(); });
  world.leave(std::nullopt);
}

}  // namespace nacre::group
