// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "plugins/control/viewers.hpp"

using namespace nacre;  // NOLINT
using control::ControlRequest;
using control::StreamData;
using control::StreamEnd;
using plugins::Scrollback;
using plugins::Viewers;
using value::Idset;

namespace {

// Viewers with links that take as much as a test says; what each has got as text.
struct ViewerWorld {
  explicit ViewerWorld(std::size_t keep = Scrollback::kUsual) : viewers(keep, link()) {}

  Viewers::Link link() {
    Viewers::Link out;
    out.room = [this](Viewers::ClientId client, std::uint64_t) { return rooms[client]; };
    out.put = [this](Viewers::ClientId client, const StreamData& data) {
      if (rooms[client] < data.data.size()) return false;
      rooms[client] -= data.data.size();
      got[client] += data.data;
      last[client] = data;
      return true;
    };
    out.put_end = [this](Viewers::ClientId client, const StreamEnd& end) {
      got[client] += "<end " + end.stream + ">";
    };
    out.part = [this](Viewers::ClientId client, std::uint64_t, Json part) { got[client] += dump_json(part); };
    out.answer = [this](Viewers::ClientId client, std::uint64_t, const Result<Json>& value) {
      got[client] += value ? dump_json(*value) : "error: " + value.error().message;
    };
    out.code_of_tasks = [this] { return code; };
    return out;
  }
  std::string take(Viewers::ClientId client) { return std::exchange(got[client], ""); }
  void attach(Viewers::ClientId client, const Json& arguments = Json::object(), std::size_t room = 1000,
              std::uint64_t credit = 0) {
    rooms[client] = room;
    viewers.attach(client, ControlRequest{1, "attach", arguments, credit}, 4);
  }
  void put(std::string_view text, std::uint32_t rank = 0) {
    source.rank = rank;
    io::Batch batch;
    batch.source = &source;
    batch.time = 2.5;
    batch.body = text;
    viewers.put(batch);
  }

  std::map<Viewers::ClientId, std::size_t> rooms;
  std::map<Viewers::ClientId, std::string> got;
  std::map<Viewers::ClientId, StreamData> last;
  std::optional<int> code;
  io::Source source;
  Viewers viewers;
};

const std::string kEnds = "<end stdout><end stderr>";
const std::string kBegin = R"({"before":0,"tasks":4})";

}  // namespace

TEST_CASE("several viewers get what is kept, then what comes, then the code", "[control]") {
  ViewerWorld world;
  world.put("early\n");
  world.attach(1);
  world.attach(2, {{"tail", "none"}, {"ranks", "1-2"}});
  CHECK(world.take(1) == kBegin + "early\n");
  CHECK(world.last[1] == StreamData{1, "stdout", "early\n", {{"rank", 0}, {"time", 2.5}}});
  CHECK(world.take(2) == R"({"before":6,"tasks":4})");
  world.put("zero\n");
  world.put("one\n", 1);
  CHECK(world.take(1) == "zero\none\n");
  CHECK(world.take(2) == "one\n");
  world.viewers.all_out();
  CHECK(world.take(1) == kEnds);
  CHECK(world.viewers.any());
  world.viewers.ended(3);
  CHECK(world.take(1) == R"({"code":3})");
  CHECK(world.take(2) == kEnds + R"({"code":3})");
  CHECK_FALSE(world.viewers.any());
  world.attach(3);  // after the end
  CHECK(world.take(3) == kBegin + "early\nzero\none\n" + kEnds + R"({"code":3})");
}

TEST_CASE("a viewer does not wait for what comes after the tasks, if their code is certain", "[control]") {
  ViewerWorld world;
  world.attach(1);
  world.viewers.all_out();
  CHECK(world.take(1) == kBegin + kEnds);
  world.code = 7;
  world.viewers.look();
  CHECK(world.take(1) == R"({"code":7})");
}

TEST_CASE("a slow viewer waits for room, and misses what goes meanwhile", "[control]") {
  ViewerWorld world;
  world.attach(1, Json::object(), 0);
  world.attach(2, Json::object(), SIZE_MAX);
  std::string block;
  for (int i = 0; i < 1000; ++i) block += std::string(99, 'x') + '\n';
  for (int i = 0; i < 30; ++i) world.put(block);
  CHECK(world.take(1) == kBegin);
  CHECK(world.take(2).size() == kBegin.size() + 30 * block.size());
  world.viewers.ended(0);
  CHECK(world.take(2) == kEnds + R"({"code":0})");
  world.rooms[1] = 100;
  world.viewers.has_room(1, 1);
  std::string got = world.take(1);
  CHECK(got.starts_with(R"({"missed":{"bytes":)"));
  Json missed = Json::parse(got.substr(0, got.find('x')));
  CHECK(got.ends_with(std::string(99, 'x') + '\n'));
  world.rooms[1] = SIZE_MAX;
  world.viewers.has_room(1, 1);
  got = world.take(1);
  std::string end = kEnds + R"({"code":0})";
  REQUIRE(got.ends_with(end));
  CHECK(missed["missed"]["bytes"].get<std::size_t>() + 100 + got.size() - end.size() == 30 * block.size());
  CHECK(missed["missed"]["lines"].get<std::size_t>() * 100 == missed["missed"]["bytes"].get<std::size_t>());
}

TEST_CASE("a line waits for room, if it is not longer than the viewer's first credit", "[control]") {
  ViewerWorld world;
  world.attach(1, Json::object(), 8, 20);
  world.put("1234\n6789012\nx\n");
  CHECK(world.take(1) == kBegin + "1234\n");
  world.rooms[1] = 10;
  world.viewers.has_room(1, 1);
  CHECK(world.take(1) == "6789012\nx\n");
  world.put(std::string(30, 'x') + '\n');
  CHECK(world.take(1).empty());
  world.rooms[1] = 20;
  world.viewers.has_room(1, 1);
  CHECK(world.take(1) == std::string(20, 'x'));
  CHECK(world.last[1].members["open"] == true);
  world.rooms[1] = 20;
  world.viewers.has_room(1, 1);
  CHECK(world.take(1) == std::string(10, 'x') + '\n');
  CHECK(world.last[1].members["continues"] == true);
}

TEST_CASE("a viewer that has gone gets nothing more", "[control]") {
  ViewerWorld world;
  world.attach(1);
  world.attach(2);
  world.viewers.gone(1);
  world.put("x\n");
  CHECK(world.take(1) == kBegin);
  CHECK(world.take(2) == kBegin + "x\n");
}

TEST_CASE("a request that means nothing is refused with what was expected", "[control]") {
  for (const auto& [arguments, message] : std::vector<std::pair<Json, std::string>>{
           {{{"ranks", "0-4"}}, "no rank 4: the job has ranks 0-3"},
           {{{"ranks", "x"}}, "ranks: "},
           {{{"ranks", 1}}, "ranks: expected a string, got 1"},
           {{{"streams", {"stdin"}}}, "streams: expected stdout, stderr, got an array"},
           {{{"streams", "stdout"}}, "streams: expected an array"},
           {{{"tail", "some"}}, R"(tail: expected a number of lines, all or none, got "some")"},
           {{{"tail", -1}}, "tail: expected"},
           {{{"since", "x"}}, "since: expected a number"}}) {
    ViewerWorld world;
    world.attach(1, arguments);
    CHECK_THAT(world.take(1), Catch::Matchers::StartsWith("error: " + message));
    CHECK_FALSE(world.viewers.any());
  }
}

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
