// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/viewers.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using plugins::Scrollback;
using value::Idset;
using Piece = Scrollback::Piece;
using Wanted = Scrollback::Wanted;

namespace {

constexpr std::size_t kCost = Scrollback::kPieceCost;

struct ScrollbackWorld {
  explicit ScrollbackWorld(std::size_t keep = 1000) : kept(keep) {}

  void put(std::uint32_t rank, std::string_view text, double time = 1, io::Stream stream = io::Stream::out) {
    io::Source& source = sources[rank * 2 + static_cast<std::size_t>(stream)];
    source.rank = rank;
    source.stream = stream;
    io::Batch batch;
    batch.source = &source;
    batch.time = time;
    batch.head = text.substr(0, 1);
    batch.body = text.substr(1);
    batch.continues = std::exchange(opens[&source], text.back() != '\n');
    batch.open = text.back() != '\n';
    kept.put(batch);
  }

  Scrollback kept;
  std::array<io::Source, 16> sources;
  std::map<const io::Source*, bool> opens;
};

// All text that a reader gets now.
std::string all_of(Scrollback::Reader& reader, std::size_t most = 1000) {
  std::string out;
  while (auto piece = reader.next(most)) {
    out += piece->text;
    reader.pass(*piece);
  }
  return out;
}
std::string seen(ScrollbackWorld& world, Wanted wanted) {
  Scrollback::Reader reader(world.kept, std::move(wanted));
  return all_of(reader);
}

}  // namespace

TEST_CASE("a reader gets what is kept, then what comes", "[control]") {
  ScrollbackWorld world;
  world.put(0, "one\n");
  world.put(1, "two\nthr", 2, io::Stream::err);
  Scrollback::Reader reader(world.kept, {});
  auto first = reader.next(100);
  REQUIRE(first);
  CHECK((first->rank == 0 && first->text == "one\n" && first->time == 1 && !first->continues && !first->open));
  CHECK(reader.next(100)->text == "one\n");  // the piece was not passed
  reader.pass(*first);
  auto second = reader.next(100);
  CHECK((second->rank == 1 && second->stream == io::Stream::err && second->text == "two\nthr" && second->open));
  reader.pass(*second);
  CHECK_FALSE(reader.next(100));
  world.put(1, "ee\n", 3, io::Stream::err);
  auto third = reader.next(100);
  CHECK((third->text == "ee\n" && third->continues && !third->open));
  reader.pass(*third);
  CHECK(reader.before() == 0);
  CHECK(reader.missed() == Scrollback::Missed{});
}

TEST_CASE("what is too long for one call is cut, behind a line where it can be", "[control]") {
  ScrollbackWorld world;
  world.put(0, "ab\ncdefgh\n");
  Scrollback::Reader reader(world.kept, {});
  auto piece = reader.next(5);
  CHECK((piece->text == "ab\n" && !piece->open));
  reader.pass(*piece);
  piece = reader.next(5);
  CHECK((piece->text == "cdefg" && !piece->continues && piece->open));
  reader.pass(*piece);
  piece = reader.next(5);
  CHECK((piece->text == "h\n" && piece->continues && !piece->open));
}

TEST_CASE("a reader chooses tasks, streams, the last lines and a time", "[control]") {
  ScrollbackWorld world;
  for (std::uint32_t i = 0; i < 4; ++i) {
    world.put(i, std::to_string(i) + "a\n" + std::to_string(i) + "b\n", i);
    world.put(i, std::to_string(i) + "e\n", i, io::Stream::err);
  }
  world.put(3, "open", 9);
  CHECK(seen(world, {.ranks = Idset::parse("1,3").value(), .streams = {true, false}}) == "1a\n1b\n3a\n3b\nopen");
  CHECK(seen(world, {.streams = {false, true}}) == "0e\n1e\n2e\n3e\n");
  CHECK(seen(world, {.lines = 0}).empty());
  CHECK(seen(world, {.lines = 1}) == "open");
  CHECK(seen(world, {.lines = 3}) == "3b\n3e\nopen");
  CHECK(seen(world, {.lines = 100}) == seen(world, {}));
  CHECK(seen(world, {.ranks = Idset::parse("1").value(), .streams = {true, false}, .lines = 1}) == "1b\n");
  CHECK(seen(world, {.since = 2.5}) == "3a\n3b\n3e\nopen");
  CHECK(seen(world, {.since = 100}).empty());
  Scrollback::Reader late(world.kept, {.lines = 3});
  CHECK(late.before() == 4 * 9 - 6);
}

TEST_CASE("whole lines go when there are too many bytes", "[control]") {
  ScrollbackWorld world(100);
  world.put(0, "first\nsecond\nthird\n");
  CHECK(world.kept.size() == 19 + kCost);
  world.put(0, "next\n");  // one piece more than fits
  CHECK(world.kept.size() <= 100);
  CHECK(seen(world, {}) == "next\n");
  ScrollbackWorld cut(19 + kCost);
  cut.put(0, "first\nsecond\nthird\n");
  cut.put(0, "x\n");
  CHECK(seen(cut, {}) == "x\n");
  ScrollbackWorld longer(100 + kCost);
  longer.put(0, std::string(60, 'a') + "\n" + std::string(60, 'b') + "\nlast\n");
  CHECK(seen(longer, {}) == std::string(60, 'b') + "\nlast\n");
  Scrollback::Reader reader(longer.kept, {});
  CHECK(reader.before() == 61);
  CHECK(reader.missed() == Scrollback::Missed{});
}

TEST_CASE("a line whose beginning has gone is not shown", "[control]") {
  ScrollbackWorld world(50 + 2 * kCost);
  world.put(0, std::string(40, 'a'));
  world.put(1, "other\n");
  world.put(0, std::string(30, 'a') + "\nnew\n");
  CHECK(seen(world, {}) == "other\nnew\n");
}

TEST_CASE("nothing is kept while nobody reads and none is asked for", "[control]") {
  ScrollbackWorld world(0);
  world.put(0, "early\n");
  CHECK(world.kept.size() == 0);
  {
    Scrollback::Reader reader(world.kept, {});
    CHECK(reader.before() == 6);
    world.put(0, "late\n");
    CHECK(all_of(reader) == "late\n");
  }
  CHECK(world.kept.size() == 0);
}

TEST_CASE("a reader that is late misses whole lines, which are counted", "[control]") {
  ScrollbackWorld world(0);
  Scrollback::Reader quick(world.kept, {});
  Scrollback::Reader slow(world.kept, {.ranks = Idset::parse("0").value()});
  std::string block;
  for (int i = 0; i < 1000; ++i) block += std::string(99, 'x') + '\n';
  world.put(0, "begun, ");
  auto begun = slow.next(100);
  slow.pass(*begun);
  world.put(0, "ended\n");
  std::size_t most = 0;
  for (int i = 0; i < 30; ++i) {
    world.put(0, block);
    world.put(1, block);
    CHECK(all_of(quick, 1 << 20).size() == (i == 0 ? 13 : 0) + 2 * block.size());
    most = std::max(most, world.kept.size());
  }
  CHECK(most <= Scrollback::kQueue);
  CHECK(quick.missed() == Scrollback::Missed{});
  std::string rest = all_of(slow, 1 << 20);
  auto missed = slow.missed();
  CHECK(missed.bytes + rest.size() == 6 + 30 * block.size());
  CHECK(missed.lines + rest.size() / 100 == 1 + 30 * 1000);
  CHECK(rest.size() % 100 == 0);
  CHECK(slow.missed() == Scrollback::Missed{});
}

TEST_CASE("the end of a line that is partly missed is missed too", "[control]") {
  ScrollbackWorld world(0);
  Scrollback::Reader reader(world.kept, {});
  world.put(0, std::string(Scrollback::kQueue / 2, 'a'));
  world.put(0, std::string(Scrollback::kQueue / 2, 'a'));
  world.put(0, "a\nwhole\n");
  CHECK(all_of(reader, 1 << 20) == "whole\n");
  CHECK(reader.missed() == Scrollback::Missed{1, Scrollback::kQueue + 2});
}
