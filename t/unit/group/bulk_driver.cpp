// SPDX-License-Identifier: Apache-2.0
#include "group/bulk_driver.hpp"
#include "fewer.hpp"
#include "group_world.hpp"
#include "quiet_port.hpp"

namespace nacre::group {

namespace {

constexpr bulk::Channel kUp = bulk::up::kOutput;
constexpr bulk::Channel kDown = bulk::down::kInput;

std::string piece(Rank origin, int number) {
  return fmt::format("{}.{}:", origin, number) + std::string(20000, 'x');
}

// What the leader gets from each shell, and what each shell gets of the broadcast.
struct Bulk {
  explicit Bulk(World& of) : world(of) {
    for (Rank rank = 0; rank < world.size; ++rank) serve(rank);
  }

  bulk::Port& port(Rank rank) { return *world.shells[rank].member->bulk(); }

  void serve(Rank rank) {
    bulk::Port::Upward upward;
    upward.on_record = [this](bulk::Id origin, bulk::Numbered number, std::string_view bytes) {
      if (bytes.empty()) ended.insert(origin);
      if (!bytes.empty()) came[origin].emplace_back(bytes);
      if (takes) return port(0).taken(origin, number);
      untaken.emplace_back(origin, number);
    };
    upward.on_room = [this, rank] { put_more(rank); };
    upward.on_end = [this, rank](const Error& why) { ends[rank] = why.message; };
    port(rank).serve(kUp, std::move(upward));
    bulk::Port::Downward downward;
    downward.on_record = [this, rank](bulk::Numbered number, std::string_view bytes) {
      heard[rank] += bytes.empty() ? "." : bytes;
      if (listens[rank]) return port(rank).consumed(number);
      unheard[rank].push_back(number);
    };
    downward.on_room = [this] { room = true; };
    port(rank).serve(kDown, std::move(downward));
    listens[rank] = true;
  }

  void put_more(Rank rank) {
    for (int& next = put[rank]; next < pieces; ++next) {
      auto done = port(rank).put(kUp, piece(rank, next));
      if (!done || !*done) return;
    }
    world.shells[rank].member->close_bulk();
  }

  [[nodiscard]] std::vector<std::string> all_of(Rank rank) const {
    std::vector<std::string> out;
    for (int i = 0; i < pieces; ++i) out.push_back(piece(rank, i));
    return out;
  }

  World& world;
  int pieces = 400;  // each shell's: twice its window
  bool takes = true;
  bool room = false;
  std::map<Rank, int> put;
  std::map<bulk::Id, std::vector<std::string>> came;
  std::set<bulk::Id> ended;
  std::vector<std::pair<bulk::Id, bulk::Numbered>> untaken;
  std::map<Rank, std::string> heard;
  std::map<Rank, bool> listens;
  std::map<Rank, std::vector<bulk::Numbered>> unheard;
  std::map<Rank, std::string> ends;
};

}  // namespace

TEST_CASE("the leader gets what all shells put, over real links") {
  World world(6, GENERATE(Over::local, Over::tcp));
  world.start_all();
  Bulk bulk(world);
  for (Rank rank = 0; rank < 6; ++rank) bulk.put_more(rank);
  world.run_until([&] { return bulk.ended.size() == 6; });
  for (Rank rank = 0; rank < 6; ++rank) CHECK((bulk.came[rank] == bulk.all_of(rank)));
  CHECK_FALSE(bulk.port(1).put(kUp, "more"));
  world.leave();
}

TEST_CASE("a leader that takes nothing stops who puts, and nothing is lost") {
  World world(4);
  world.start_all();
  Bulk bulk(world);
  bulk.takes = false;
  for (Rank rank = 1; rank < 4; ++rank) bulk.put_more(rank);
  world.pass("while nothing is taken");  // control frames are not held up
  for (Rank rank = 1; rank < 4; ++rank) CHECK(bulk.put[rank] < bulk.pieces);
  bulk.takes = true;
  while (!bulk.untaken.empty()) {
    for (auto [origin, number] : std::exchange(bulk.untaken, {})) bulk.port(0).taken(origin, number);
  }
  world.run_until([&] { return bulk.ended.size() == 3; });
  for (Rank rank = 1; rank < 4; ++rank) CHECK((bulk.came[rank] == bulk.all_of(rank)));
  world.leave();
}

TEST_CASE("what comes where the channel is only put on waits for who takes it") {
  World world(2);
  world.start_all();
  bulk::Port& port = *world.shells[0].member->bulk();
  port.serve(kUp, bulk::Port::Upward());
  REQUIRE(world.shells[1].member->bulk()->put(kUp, "a").value());
  world.pass("it is there");
  port.serve(kUp, bulk::Port::Upward());
  std::string came;
  bulk::Port::Upward owner;
  owner.on_record = [&](bulk::Id origin, bulk::Numbered number, std::string_view bytes) {
    came += bytes;
    port.taken(origin, number);
  };
  port.serve(kUp, std::move(owner));
  world.run_until([&] { return came == "a"; });
  world.leave();
}

TEST_CASE("a shell between others is lost: what they put still comes, once") {
  World world(7);
  world.start_all();
  Bulk bulk(world);
  world.pass("all are there");
  for (Rank rank : {3U, 4U, 5U}) bulk.put_more(rank);
  world.run_until([&] { return bulk.came[3].size() > 10; });
  world.shells[1].member.reset();  // above 3 and 4
  world.run_until([&] { return bulk.ended.size() == 3; });
  for (Rank rank : {3U, 4U, 5U}) CHECK((bulk.came[rank] == bulk.all_of(rank)));
  world.leave();
}

TEST_CASE("what the leader broadcasts comes to all; who does not take it stops it in the end") {
  World world(5, GENERATE(Over::local, Over::tcp));
  world.start_all();
  Bulk bulk(world);
  world.pass("all are there");
  bulk.listens[4] = false;
  std::string sent;
  auto broadcast = [&](const std::string& bytes) {
    auto done = bulk.port(0).broadcast(kDown, bytes);
    REQUIRE(done);
    if (*done) sent += bytes;
    return *done;
  };
  int sent_pieces = 0;
  for (; broadcast(piece(0, sent_pieces)); ++sent_pieces) REQUIRE(sent_pieces < 1000);
  world.run_until([&] { return bulk.heard[4] == sent; });
  CHECK_FALSE(bulk.room);
  bulk.listens[4] = true;
  for (bulk::Numbered number : bulk.unheard[4]) bulk.port(4).consumed(number);
  world.run_until([&] { return bulk.room; });
  CHECK(broadcast("the last"));
  REQUIRE(bulk.port(0).end_broadcast(kDown));
  for (Rank rank = 0; rank < 5; ++rank) {
    world.run_until([&] { return bulk.heard[rank].ends_with('.'); });
    CHECK((bulk.heard[rank] == sent + "."));
  }
  world.leave();
}

TEST_CASE("what comes before somebody serves its channel waits for that, or is let go") {
  World world(2);
  world.start_all();
  bulk::Port& port = *world.shells[1].member->bulk();
  REQUIRE(port.put(kUp, "early"));
  REQUIRE(world.shells[0].member->bulk()->broadcast(kDown, "early too"));
  world.pass("it has come, or will");
  std::optional<Bulk> bulk;
  SECTION("served") {
    bulk.emplace(world);
    world.run_until([&] { return !bulk->came[1].empty() && !bulk->heard[1].empty() && !bulk->heard[0].empty(); });
    CHECK(bulk->came[1].front() == "early");
    CHECK(bulk->heard[1] == "early too");
  }
  SECTION("not served") {
    for (Rank rank : {0U, 1U}) world.shells[rank].member->bulk()->serve_no_more();
    std::string much(bulk::kMaxRecord, 'x');
    for (int i = 0; i < 100; ++i) {  // more than its window
      world.run_until([&] { return world.shells[0].member->bulk()->broadcast(kDown, much).value(); });
    }
  }
  world.leave();
}

TEST_CASE("a shell that is cut off tells those who carry") {
  overlay::OverlayOptions bounds;
  bounds.fence = overlay::milliseconds(6000);
  World world(3, Over::local, bounds);
  world.start_all();
  Bulk bulk(world);
  world.pass("all are there");
  world.shells[0].member.reset();
  world.run_until([&] { return bulk.ends.count(1) > 0 && bulk.ends.count(2) > 0; });
  CHECK_FALSE(bulk.port(1).put(kUp, "more"));
}

// Values of collectives that are too large for the log: they come beside it, over real links.

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
