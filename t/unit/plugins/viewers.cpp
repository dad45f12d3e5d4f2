// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/viewers.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using control::ControlRequest;
using control::StreamData;
using control::StreamEnd;
using plugins::Scrollback;
using plugins::Viewers;

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
