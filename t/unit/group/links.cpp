// SPDX-License-Identifier: Apache-2.0
#include "group/link_sender.hpp"
#include "group/link_table.hpp"
#include "group_world.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT

TEST_CASE("what is for a link that has gone is dropped, and the link may be dialled again meanwhile") {
  World world(2);
  bool linked = false;
  LinkTable::Callbacks callbacks;
  callbacks.on_linked = [&](overlay::LinkName link) { linked = link == overlay::LinkName{0, overlay::Side::up}; };
  callbacks.on_unlinked = [](overlay::LinkName, const Error& why) { FAIL(why.message); };
  callbacks.on_closed = [] {};
  auto table = LinkTable::create(*world.loop, world.memberships[1], std::move(callbacks)).value();
  world.start(0);
  REQUIRE(table->dial(0));
  CHECK(table->send({0, overlay::Side::up}, "late"));
  CHECK(table->grant({0, overlay::Side::up}, 1, 1));
  CHECK(table->write({0, overlay::Side::up}, 1, "late") == 0);
  world.run_until([&] { return linked; });
}

namespace {

constexpr overlay::LinkName kAbove{1, overlay::Side::up};
constexpr overlay::LinkName kBelow{1, overlay::Side::down};

// Links that take `room` frames each, and entries 1 to 9.
struct Bench {
  static std::string name(overlay::LinkName link) {
    return fmt::format("{}{}", link.side == overlay::Side::up ? '^' : 'v', link.peer);
  }
  SendQueue::Links links() {
    SendQueue::Links out;
    out.send = [this](overlay::LinkName to, std::string_view what) -> Result<void> {
      if (is_broken) return Error{EPIPE, "gone"};
      --room;
      done.push_back(fmt::format("{} {}", name(to), what));
      return {};
    };
    out.has_room = [this](overlay::LinkName) { return room > 0; };
    out.half_close = [this](overlay::LinkName link) { done.push_back(name(link) + " closed"); };
    out.frame_of = [this](overlay::Seq seq) -> const std::string* {
      frame = fmt::format("entry {}", seq);
      return seq < 10 ? &frame : nullptr;
    };
    return out;
  }
  std::vector<std::string> take() { return std::exchange(done, {}); }

  int room = 0;
  bool is_broken = false;
  std::vector<std::string> done;
  std::string frame;
  SendQueue outgoing{links()};
};

using Said = std::vector<std::string>;

}  // namespace

TEST_CASE("what has no room waits, in its order, and a beat passes it") {
  Bench bench;
  bench.room = 2;
  for (overlay::Seq seq : {1, 2, 3, 4}) REQUIRE(bench.outgoing.send_entry(kBelow, seq));
  REQUIRE(bench.outgoing.send(kBelow, "bye"));
  REQUIRE(bench.outgoing.half_close(kBelow));
  CHECK(bench.take() == Said{"v1 entry 1", "v1 entry 2"});
  REQUIRE(bench.outgoing.send_first(kBelow, "beat"));
  CHECK(bench.take() == Said{"v1 beat"});
  bench.room = 1;
  REQUIRE(bench.outgoing.go_on(kBelow));
  CHECK(bench.take() == Said{"v1 entry 3"});
  bench.room = 9;
  REQUIRE(bench.outgoing.send(kBelow, "after all that waits"));
  CHECK(bench.take().empty());
  REQUIRE(bench.outgoing.go_on(kBelow));
  CHECK(bench.take() == Said{"v1 entry 4", "v1 bye", "v1 closed", "v1 after all that waits"});
  CHECK_FALSE(bench.outgoing.holds(kBelow));
  REQUIRE(bench.outgoing.send(kBelow, "at once"));
  CHECK(bench.take() == Said{"v1 at once"});
}

TEST_CASE("the two links to a peer wait each for itself, and one that has gone leaves nothing behind") {
  Bench bench;
  REQUIRE(bench.outgoing.send(kAbove, "a"));
  REQUIRE(bench.outgoing.send(kBelow, "b"));
  bench.outgoing.forget(kAbove);
  bench.room = 9;
  REQUIRE(bench.outgoing.go_on(kAbove));
  REQUIRE(bench.outgoing.send(kAbove, "c"));
  REQUIRE(bench.outgoing.go_on(kBelow));
  CHECK(bench.take() == Said{"^1 c", "v1 b"});
}

TEST_CASE("an entry that nobody needs any more is passed over") {
  Bench bench;
  REQUIRE(bench.outgoing.send_entry(kBelow, 8));
  REQUIRE(bench.outgoing.send_entry(kBelow, 10));
  REQUIRE(bench.outgoing.send(kBelow, "bye"));
  bench.room = 9;
  REQUIRE(bench.outgoing.go_on(kBelow));
  CHECK(bench.take() == Said{"v1 entry 8", "v1 bye"});
}

TEST_CASE("before a link is hung up all goes, room or not; a link that takes nothing is an error") {
  Bench bench;
  REQUIRE(bench.outgoing.send(kAbove, "a"));
  REQUIRE(bench.outgoing.send(kBelow, "b"));
  bench.outgoing.flush_all();
  CHECK(bench.take() == Said{"^1 a", "v1 b"});
  REQUIRE(bench.outgoing.send(kAbove, "c"));
  bench.is_broken = true;
  bench.room = 1;
  Result<void> gone = bench.outgoing.go_on(kAbove);
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == EPIPE);
  bench.outgoing.flush(kAbove);
  CHECK_FALSE(bench.outgoing.holds(kAbove));
}
