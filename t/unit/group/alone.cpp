// SPDX-License-Identifier: Apache-2.0
#include "group/alone.hpp"
#include "group_world.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT

TEST_CASE("each collective of a shell alone is complete as soon as it is entered") {
  Alone alone(3);
  std::string order;
  alone.enter("init", [&](const Result<void>& result) { order += result ? "init;" : "?"; });
  alone.gather("g", "part", [&](Result<Group::Gathered> all) {
    REQUIRE(all);
    CHECK(*all == Group::Gathered{{"part", value::Idset::range(3, 3)}});
    order += ";g";
  });
  alone.leave(5, [&](std::optional<int> code) { order += ";left " + std::to_string(*code); });
  CHECK(order == "init;;g;left 5");
}

TEST_CASE("a shell alone starts what it is ordered, and refuses what another should") {
  Alone alone(3);
  std::string story;
  Group::Callbacks callbacks;
  callbacks.on_exec = [&](const value::ExecShare& share) {
    story += "start " + std::to_string(share.number) + " " + share.ranks.str() + " " + share.command + ";";
  };
  alone.serve(std::move(callbacks));
  auto answer = [&](Result<value::ExecAnswer> got) {
    REQUIRE(got);
    story += "answer " + std::to_string(got->number) + " " + got->lost.str() + ";";
  };
  value::ExecOrder order{{{3, value::Idset::range(0, 1)}}, "ls", true, value::ExecOrder::Kind::tool};
  alone.exec(order, answer);
  order.shares[5] = value::Idset::range(7, 7);
  alone.exec(order, answer);
  order.strict = false;
  alone.exec(order, answer);
  alone.exec({{{5, {}}}, "ls", false, value::ExecOrder::Kind::tool}, answer);
  CHECK(story == "answer 1 ;start 1 0-1 ls;answer 0 5;answer 2 ;start 2 0-1,7 ls;answer 3 ;");
}

TEST_CASE("a shell alone hears at once what it says itself") {
  Alone alone(3);
  std::string heard;
  Group::Callbacks callbacks;
  callbacks.on_exception = [&](const JobException& e) { heard += e.message + std::to_string(e.origin); };
  callbacks.on_signal = [&](int signum, const Targets& tasks) {
    heard += std::to_string(signum) + (tasks ? "(" + tasks->str() + ")" : "");
  };
  callbacks.on_tasks = [&](const value::Idset& started, const std::vector<Ended>& ended) {
    heard += "[" + started.str() + "|" + (ended.empty() ? "" : ended[0].tasks.str()) + "]";
  };
  alone.serve(std::move(callbacks));
  alone.raise({"exec", 0, "e", 2, 9});
  alone.signal(15, value::Idset::range(1, 2));
  alone.signal(2, value::Idset());
  alone.signal(3, std::nullopt);
  alone.tasks_started(value::Idset::range(0, 4));
  alone.tasks_ended({value::Idset::range(4, 4), exits::Record::lost()});
  CHECK(heard == "e315(1-2)2()3[0-4|][|4]");
}

TEST_CASE("an announcement is whole again after its way, whatever its length") {
  for (std::size_t size :
       {std::size_t{0}, std::size_t{1}, kAnnouncedPiece, kAnnouncedPiece + 1, 3 * kAnnouncedPiece}) {
    std::string bytes(size, '\xff');
    Announcements others;
    std::optional<Announcement> whole;
    std::vector<overlay::Event> pieces = pieces_of("topic", bytes, 258).value();
    for (const overlay::Event& piece : pieces) {
      CHECK_FALSE(whole);
      whole = others.take(piece);
    }
    REQUIRE(whole);
    CHECK(whole->topic == "topic");
    CHECK((whole->bytes == bytes));
  }
}

TEST_CASE("pieces of several origins are kept apart, and what is none is passed over") {
  Announcements others;
  auto long_ones = pieces_of("a", std::string(kAnnouncedPiece, 'x') + "y", 1).value();
  CHECK_FALSE(others.take(long_ones[0]));
  CHECK_FALSE(others.take({"a", "none"}));
  CHECK(others.take(pieces_of("b", "z", 2).value().front())->bytes == "z");
  CHECK(others.take(long_ones[1])->bytes.back() == 'y');
}

TEST_CASE("who joins while pieces are on their way passes over the rest of that announcement") {
  auto long_one = pieces_of("a", std::string(3 * kAnnouncedPiece, 'x'), 1).value();
  REQUIRE(long_one.size() == 3);
  for (std::size_t missed = 1; missed < long_one.size(); ++missed) {
    Announcements others;
    for (std::size_t i = missed; i < long_one.size(); ++i) CHECK_FALSE(others.take(long_one[i]));
    CHECK(others.take(pieces_of("b", "z", 1).value().front())->bytes == "z");
    std::optional<Announcement> whole;
    for (const overlay::Event& piece : long_one) whole = others.take(piece);
    REQUIRE(whole);
    CHECK(whole->bytes.size() == 3 * kAnnouncedPiece);
  }
}

TEST_CASE("what is too long is refused") {
  CHECK(pieces_of("t", std::string(kMaxAnnounced + 1, 'x'), 0).error().code == EMSGSIZE);
}

TEST_CASE("a shell alone hears its own announcement") {
  Alone alone(0);
  std::string heard;
  Group::Callbacks callbacks;
  callbacks.on_announcement = [&](std::string_view topic, std::string_view bytes) {
    heard = fmt::format("{}:{}", topic, bytes);
  };
  alone.serve(std::move(callbacks));
  REQUIRE(alone.announce("t", "x"));
  CHECK(heard == "t:x");
}

TEST_CASE("all shells hear all announcements in one order") {
  World world(5);
  world.start_all();
  std::vector<std::vector<std::string>> heard(world.size);
  for (Rank rank = 0; rank < world.size; ++rank) {
    Group::Callbacks callbacks = World::callbacks(world.shells[rank]);
    callbacks.on_announcement = [&, rank](std::string_view topic, std::string_view bytes) {
      heard[rank].push_back(fmt::format("{}:{}", topic, bytes));
    };
    world.shells[rank].member->serve(callbacks);
  }
  std::string long_part(std::size_t{700} << 10, '\0');
  for (int round = 0; round < 3; ++round) {
    for (Rank rank = 0; rank < world.size; ++rank) {
      std::string bytes = rank == 3 ? long_part : fmt::format("{} of {}", round, rank);
      REQUIRE(world.shells[rank].member->announce("t", bytes));
    }
  }
  auto all_here = [&](const std::vector<std::string>& each) { return each.size() == 3 * world.size; };
  world.run_until([&] { return std::all_of(heard.begin(), heard.end(), all_here); });
  for (const auto& each : heard) CHECK((each == heard[0]));
  CHECK(std::count(heard[0].begin(), heard[0].end(), "t:" + long_part) == 3);
  world.leave();
}
