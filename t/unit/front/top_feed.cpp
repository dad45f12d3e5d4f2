// SPDX-License-Identifier: Apache-2.0
//
// What `nacre top` asks, and how it takes answers that come late, in parts, or not at all. The leader is this test.
#include "front/top_view.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include "catch.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::control;  // NOLINT
using namespace nacre::front;    // NOLINT

namespace {

const Json kStatus{{"id", "f1"},   {"name", "a"},    {"tasks", 2},     {"shells", 1},
                   {"running", 2}, {"started", 1.5}, {"ending", false}};
const Json kExits{{"running", "0-1"}, {"exits", {{{"record", "x3"}, {"count", 1}}}}};

Json part(std::uint32_t rank) {
  Json task{{"rank", rank}, {"host", "n0"}, {"pid", 5}, {"state", "R"},  {"try", 1},
            {"time", 1.0},  {"cpu", 0.5},   {"rss", 9}, {"command", "a"}};
  return {{"tasks", Json::array({task})}};
}

struct FeedWorld {
  FeedWorld() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    own = UniqueFd(ends[0]);
    UniqueFd theirs(ends[1]);
    send(line_of(ControlHello{"1"}));
    UniqueFd duplicate(::dup(theirs.get()));
    feed.emplace(Client::over(std::move(theirs), std::move(duplicate), "1", event::Seconds(5)).value());
  }
  void send(const std::string& text) {
    REQUIRE(::write(own.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void answer(std::uint64_t id, const Json& value, bool more = false) {
    send(line_of(Answer{id, value, {}, more}));
  }

  UniqueFd own;
  std::optional<TopFeed> feed;
};

}  // namespace

TEST_CASE("a sample is there once all has been answered, in any order") {
  FeedWorld world;
  CHECK(!world.feed->waiting_since());
  REQUIRE(world.feed->ask());
  CHECK(world.feed->waiting_since());
  REQUIRE(world.feed->ask());  // no request: answers are still awaited
  world.answer(3, part(0), true);
  world.answer(2, kExits);
  CHECK(!world.feed->take().value());
  world.answer(1, kStatus);
  CHECK(!world.feed->take().value());
  Json last = part(1);
  last["late"] = {"n1"};
  world.answer(3, last);
  auto sample = world.feed->take().value();
  REQUIRE(sample);
  CHECK(sample->tasks.size() == 2);
  CHECK(sample->failed == 1);
  CHECK(sample->late.size() == 1);
  CHECK(!world.feed->waiting_since());
  REQUIRE(world.feed->ask());
  world.answer(4, kStatus);  // of the next three requests
  world.answer(5, kExits);
  world.answer(6, part(0));
  CHECK(world.feed->take().value()->tasks.size() == 1);
}

TEST_CASE("a leader that is busy gives no sample, and is asked again") {
  FeedWorld world;
  REQUIRE(world.feed->ask());
  world.answer(1, kStatus);
  world.answer(2, kExits);
  world.send(line_of(Answer{3, Json(), Error{EBUSY, "too many"}}));
  CHECK(!world.feed->take().value());
  CHECK(!world.feed->waiting_since());
}

TEST_CASE("the job's end, a refusal, a wrong answer, the end of the link") {
  FeedWorld world;
  REQUIRE(world.feed->ask());
  SECTION("the end") {
    world.send(line_of(ControlEvent{1, "end", {{"code", 9}}}));
    CHECK(!world.feed->take().value());
    CHECK(world.feed->code() == 9);
    world.own.reset();
    CHECK(world.feed->take().error().code == ECONNRESET);
  }
  SECTION("a refusal") {
    world.send(line_of(Answer{3, Json(), Error{ENOSYS, "ps: not known"}}));
    CHECK(world.feed->take().error().message == "what the leader answers: ps: not known");
  }
  SECTION("a wrong answer") {
    world.answer(1, {{"id", 5}});
    CHECK(world.feed->take().error().code == EINVAL);
  }
  SECTION("of a request that is none of ours") {
    world.answer(77, Json(1));
    CHECK(!world.feed->take().value());
  }
}
