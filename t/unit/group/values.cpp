// SPDX-License-Identifier: Apache-2.0
//
// Values of collectives that are too large for the log: they come beside it, over real links.

#include "fewer.hpp"
#include "group/bulk_driver.hpp"
#include "group_world.hpp"
#include "quiet_port.hpp"

namespace nacre::group {
namespace {

constexpr std::size_t kEach = kit::fewer<std::size_t>(8, 8) << 20;

std::string part(Rank rank) { return std::string(kEach, static_cast<char>('a' + rank)); }

// What each shell gives to a collective, and how many shells have the whole result.
struct Gather {
  explicit Gather(World& of) : world(of) {
    Rank next = 0;
    world.each([&](FakeShell& shell) {
      Rank rank = next++;
      shell.member->gather("g", part(rank), [this, rank](const Result<Group::Gathered>& all) {
        if (!all) return;
        bool fits = all->size() == world.size;
        for (const auto& [bytes, whose] : *all) fits = fits && bytes == part(whose.ids().at(0));
        if (fits) whole.insert(rank);
      });
    });
  }

  World& world;
  std::set<Rank> whole;
};

overlay::Seq entries(const World& world) { return world.shells[0].member->node().applied(); }

// Keeps the broadcast, and reports when there is room.
struct Port final : kit::QuietPort {
  using QuietPort::serve;
  void serve(bulk::Channel /*channel*/, Downward owner) override { downward = std::move(owner); }
  Result<bool> put(bulk::Channel /*channel*/, std::string_view /*bytes*/) override { return false; }
  Result<bool> broadcast(bulk::Channel /*channel*/, std::string_view bytes) override {
    if (records.size() == room) return false;
    records.emplace_back(bytes);
    return true;
  }
  void consumed(bulk::Numbered number) override { last_heard = number; }

  Downward downward;
  std::vector<std::string> records;
  std::size_t room = 1000;
  bulk::Numbered last_heard = 0;
};

}  // namespace

TEST_CASE("what is too large for the log comes beside it to all, and the log has no part of it") {
  World world(4, GENERATE(Over::local, Over::tcp));
  world.start_all();
  Gather gather(world);
  world.run_until([&] { return gather.whole.size() == world.size; });
  CHECK(entries(world) == 1);
  world.leave();
}

TEST_CASE("values come while the job's input stands still") {
  World world(3);
  world.start_all();
  world.pass("all are there");
  bulk::Port& port = *world.shells[0].member->bulk();
  std::string much(bulk::kMaxRecord, 'x');
  while (port.broadcast(bulk::down::kInput, much).value()) {
  }
  Gather gather(world);
  world.run_until([&] { return gather.whole.size() == world.size; });
  CHECK_FALSE(port.broadcast(bulk::down::kInput, much).value());
}

TEST_CASE("a shell that gets another parent, or its link again, while a value is on its way gets the whole of it") {
  overlay::OverlayOptions bounds;
  bounds.wait_for_silent(std::chrono::minutes(1));  // seven shells share one thread
  World world(7, Over::local, bounds);
  world.start_all();
  world.pass("all are there");
  overlay::Seq before = entries(world);
  Gather gather(world);
  world.run_until([&] { return entries(world) > before; });
  REQUIRE(gather.whole.size() < 4);
  SECTION("the parent is lost") {
    world.shells[1].member.reset();  // above 3 and 4
    world.run_until([&] {
      for (Rank rank : {2U, 3U, 4U, 5U, 6U}) {
        if (!gather.whole.contains(rank)) return false;
      }
      return true;
    });
    CHECK(world.shells[0].lost == std::vector<Rank>{1});
  }
  SECTION("a link breaks") {
    CHECK(break_links_to(world.folder.path("s1")) == 2);  // of 3 and 4
    CHECK(break_links_to(world.folder.path("s0")) == 2);
    world.run_until([&] { return gather.whole.size() == world.size; });
    CHECK(world.all([](const FakeShell& shell) { return shell.lost.empty(); }));
  }
}

TEST_CASE("a value is sent as there is room, and put together again") {
  Port leader;
  ValueCarrier sender(leader, nullptr);
  leader.room = 1;
  std::string first(3 * bulk::kMaxRecord, 'a');
  sender.publish(5, first);
  sender.publish(6, "b");
  CHECK(leader.records.size() == 1);
  leader.room = 1000;
  leader.downward.on_room();
  REQUIRE(leader.records.size() == 5);

  Port below;
  std::vector<std::pair<overlay::Seq, std::string>> arrived;
  ValueCarrier taker(below, [&](overlay::Seq entry, std::string value) { arrived.emplace_back(entry, value); });
  std::size_t from = GENERATE(0U, 1U);  // a newcomer may begin in the middle
  for (std::size_t i = from; i < leader.records.size(); ++i) below.downward.on_record(i + 1, leader.records[i]);
  CHECK(below.last_heard == leader.records.size());
  REQUIRE(arrived.size() == 2 - from);
  CHECK((from == 1 || arrived[0] == std::pair(overlay::Seq{5}, first)));
  CHECK((arrived.back() == std::pair(overlay::Seq{6}, std::string("b"))));
}

TEST_CASE("a record of no value is passed over") {
  Port below;
  int arrived = 0;
  ValueCarrier taker(below, [&](overlay::Seq, const std::string&) { ++arrived; });
  below.downward.on_record(1, "short");
  below.downward.on_record(2, std::string(24, '\xff'));
  below.downward.on_record(3, "");
  CHECK(arrived == 0);
  CHECK(below.last_heard == 3);
}

}  // namespace nacre::group
