// SPDX-License-Identifier: Apache-2.0
//
// Shells that join a job that runs (Group::grow) over real links.
#include "group_world.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT
using value::Grown;
using value::Shrunk;

namespace {

constexpr std::chrono::milliseconds kLong{60'000};

struct Asked {
  std::optional<Result<Grown>> end;
  Group::WhenGrown take() {
    return [this](Result<Grown> grown) { end = std::move(grown); };
  }
};

std::string text_of(const Grown& grown) {
  return fmt::format("joined {} missing {}", grown.joined.str(), grown.missing.str());
}

// Passes a barrier that all shells are to enter.
void pass_with_all(World& world, const std::string& barrier) {
  std::size_t passed = 0;
  std::int64_t here = 0;
  std::set<std::int64_t> sums;
  world.each([&](FakeShell& shell) {
    ++here;
    shell.member->sum_with_all(barrier, 3, [&](const Result<std::int64_t>& sum) {
      ++passed;
      sums.insert(sum.value_or(-1));
    });
  });
  world.run_until([&] { return passed == static_cast<std::size_t>(here); });
  CHECK(sums == std::set{3 * here});
}

}  // namespace

TEST_CASE("shells join a job: collectives among themselves, and with all") {
  World world(4, GENERATE(Over::local, Over::tcp));
  world.start_all();
  world.pass("b");
  Asked asked;
  Rank asker = GENERATE(0U, 3U);
  world.shells[asker].member->grow(value::Idset::range(4, 6), kLong, asked.take());
  for (int i = 0; i < 3; ++i) world.start_newcomer();
  world.run_until([&] { return asked.end.has_value(); });
  CHECK(text_of(**asked.end) == "joined 4-6 missing ");
  // The shells of the start and the newcomers do not wait for each other, even at the same name.
  std::size_t passed = 0;
  for (Rank rank = 0; rank < 4; ++rank)
    world.shells[rank].member->enter("c", [&](const Result<void>& result) { passed += result ? 1 : 0; });
  world.run_until([&] { return passed == 4; });
  std::optional<Group::Gathered> given;
  for (Rank rank = 4; rank < 7; ++rank) {
    world.shells[rank].member->gather("c", "x", [&](Result<Group::Gathered> all) {
      if (all) given = *std::move(all);
    });
  }
  world.run_until([&] { return given.has_value(); });
  CHECK(*given == Group::Gathered{{"x", value::Idset::range(4, 6)}});
  pass_with_all(world, "d");
  // A second grow; then a shell above the newcomers is lost, and they go on without it.
  Asked again;
  world.shells[0].member->grow(value::Idset::range(7, 7), kLong, again.take());
  world.start_newcomer();
  world.run_until([&] { return again.end.has_value(); });
  CHECK(text_of(**again.end) == "joined 7 missing ");
  world.shells[1].member.reset();
  world.run_until(
      [&] { return world.all([](const FakeShell& shell) { return shell.lost == std::vector<Rank>{1}; }); });
  pass_with_all(world, "e");
  std::size_t reached = 0;
  world.shells[6].member->signal(10, std::nullopt);
  world.run_until([&] {
    reached = 0;
    world.each([&](const FakeShell& shell) { reached += shell.signals.empty() ? 0 : 1; });
    return reached == 7;
  });
  world.leave();
}

TEST_CASE("a gather up to a shell is of those of the start, and of the grows up to there that have not been lost") {
  World world(3);
  world.start_all();
  Asked first;
  world.shells[0].member->grow(value::Idset::range(3, 4), kLong, first.take());
  for (int i = 0; i < 2; ++i) world.start_newcomer();
  world.run_until([&] { return first.end.has_value(); });
  Asked second;
  world.shells[0].member->grow(value::Idset::range(5, 5), kLong, second.take());
  world.start_newcomer();
  world.run_until([&] { return second.end.has_value(); });
  world.shells[1].member.reset();
  world.run_until(
      [&] { return world.all([](const FakeShell& shell) { return shell.lost == std::vector<Rank>{1}; }); });
  world.each([](const FakeShell& shell) {
    CHECK(shell.member->last_come_with(0) == 2);
    CHECK(shell.member->last_come_with(3) == 4);
    CHECK(shell.member->last_come_with(5) == 5);
  });
  std::size_t given = 0;
  for (Rank rank : {4, 3, 2, 0}) {
    world.shells[rank].member->gather_up_to(4, "g", "x", [&](const Result<Group::Gathered>& all) {
      REQUIRE(all);
      CHECK(*all == Group::Gathered{{"x", *value::Idset::parse("0,2-4")}});
      ++given;
    });
  }
  world.run_until([&] { return given == 4; });
  world.leave();
}

TEST_CASE("a grow ends without those that will not come, or have not come in time") {
  World world(2);
  world.start_all();
  Asked asked;
  world.shells[0].member->grow(value::Idset::range(2, 4), kLong, asked.take());
  world.start_newcomer();
  world.shells[0].member->suspect(3);
  world.shells[0].member->suspect(4);
  world.run_until([&] { return asked.end.has_value(); });
  CHECK(text_of(**asked.end) == "joined 2 missing 3-4");
  Asked none;
  world.shells[0].member->grow(value::Idset::range(5, 5), std::chrono::milliseconds(50), none.take());
  world.run_until([&] { return none.end.has_value(); });
  CHECK(text_of(**none.end) == "joined  missing 5");
  Asked used;
  world.shells[1].member->grow(value::Idset::range(1, 1), kLong, used.take());
  world.run_until([&] { return used.end.has_value(); });
  CHECK(used.end->error().code == EINVAL);
  pass_with_all(world, "b");
  world.leave();
  Asked late;
  world.shells[0].member->grow(value::Idset::range(9, 9), kLong, late.take());
  CHECK(late.end->error().code == EPIPE);
}

TEST_CASE("a newcomer gets the announcements from the one on at which it begins") {
  World world(2);
  world.start_all();
  std::vector<std::string> got;
  Group::Callbacks callbacks;
  callbacks.on_announcement = [&](std::string_view topic, std::string_view) { got.emplace_back(topic); };
  Asked asked;
  world.shells[0].member->grow(value::Idset::range(2, 2), kLong, asked.take());
  Membership mine = world.prepare(2, Over::local);
  mine.is_newcomer = true;
  for (Rank each = 0; each < 2; ++each) {
    FakeShell& shell = world.shells[each];
    REQUIRE(mine.directory.set(each, shell.member->membership().address));
  }
  Log log;
  auto member = OverlayDriver::create(*world.loop, std::move(mine), log, world.bounds).value();
  std::vector<std::string> early;
  member->hooks().on_announced = [&](std::string_view topic, std::string_view) {
    early.emplace_back(topic);
    return topic == "begin";
  };
  bool is_member = false;
  member->hooks().on_member = [&] { is_member = true; };
  world.run_until([&] { return asked.end.has_value() && is_member; });
  for (const char* topic : {"before", "begin", "behind"}) CHECK(world.shells[0].member->announce(topic, ""));
  world.run_until([&] { return early.size() == 3; });
  member->serve(std::move(callbacks));
  CHECK(world.shells[0].member->announce("later", ""));
  world.run_until([&] { return got.size() == 2; });
  CHECK(got == std::vector<std::string>{"behind", "later"});
  bool gone = false;
  member->leave(0, [&](std::optional<int>) { gone = true; });
  world.leave();
  world.run_until([&] { return gone; });
}

// Shells that are taken out of a job (Group::shrink) over real links.

namespace {

using Acts = std::vector<std::string>;

value::Idset set_of(const char* text) { return value::Idset::parse(text).value(); }

exits::Record victim() { return exits::Record::victim(value::WaitStatus::killed(SIGTERM)); }

void leave(FakeShell& shell) {
  shell.member->leave(0, [&shell](std::optional<int> code) {
    CHECK_FALSE(code);
    shell.gone = true;
  });
}

}  // namespace

TEST_CASE("shells leave a job: the others stay, and who asked gets the end") {
  World world(7);  // at arity 2: 1 and 2 are inner shells, 3 to 6 leaves
  world.start_all();
  world.pass("b");
  Rank asker = GENERATE(0U, 4U);
  const char* set = GENERATE("5", "1", "1,3,5", "2-3,5-6");
  CAPTURE(asker, set);
  const std::vector<value::Idset::Id> leavers = set_of(set).ids();
  for (Rank rank : leavers) world.shells[rank].member->tasks_ended({value::Idset::range(rank, rank), victim()});
  std::optional<Shrunk> answer;
  std::size_t failed = 0;  // collectives of shells that leave, entered before and after that
  auto count = [&](const Result<void>& passed) { failed += passed ? 0 : 1; };
  for (Rank rank : leavers) world.shells[rank].member->enter("exit", count);
  world.shells[asker].member->shrink(set_of(set), [&](Result<Shrunk> shrunk) {
    REQUIRE(shrunk);
    answer = *std::move(shrunk);
  });
  world.run_until([&] { return world.all([](const FakeShell& shell) { return !shell.shrinks.empty(); }); });
  CHECK_FALSE(answer);
  for (Rank rank : leavers) {
    CHECK(world.shells[rank].shrinks == Acts{"leave"});
    world.shells[rank].member->enter("later", count);
    leave(world.shells[rank]);
  }
  CHECK(failed == 2 * leavers.size());
  world.run_until([&] {
    for (Rank rank : leavers) {
      if (world.shells[rank].gone) world.shells[rank].member.reset();
    }
    return answer.has_value();
  });
  for (Rank rank : leavers) CHECK_FALSE(world.shells[rank].member);
  CHECK(answer->gone.str() == set);
  CHECK(answer->unconfirmed.empty());
  for (Rank rank : leavers) CHECK(world.shells[0].ended.of(rank) == victim());
  world.run_until([&] { return world.all([](const FakeShell& shell) { return shell.shrinks.size() == 2; }); });
  world.each([&](const FakeShell& shell) {
    CHECK(shell.shrinks == Acts{fmt::format("left {}", set), fmt::format("gone {} unconfirmed ", set)});
    CHECK(shell.lost.empty());
    CHECK(shell.cut_off.empty());
  });
  world.pass("after");
  world.leave();
}

TEST_CASE("a shell that leaves has gone when its last link is closed, and who fed it agrees; or when it stays") {
  World world(3, GENERATE(Over::local, Over::tcp));
  world.start_all();
  world.pass("b");
  auto soon = event::Timer::create(*world.loop, [] {}).value();
  auto for_a_while = [&](const std::optional<Shrunk>& answer) {
    bool over = false;
    soon = event::Timer::create(*world.loop, [&] { over = true; }).value();
    soon.start(event::Seconds(0.05));
    world.run_until([&] { return over || answer; });
    CHECK_FALSE(answer);
  };
  std::function<void()> agree;
  world.shells[0].member->hooks().on_gone = [&](Rank rank, std::function<void()> done) {
    CHECK(rank == 1);
    agree = std::move(done);
  };
  for (Rank rank : {1U, 2U}) {
    std::optional<Shrunk> answer;
    FakeShell& shell = world.shells[rank];
    world.shells[0].member->shrink(value::Idset::range(rank, rank),
                                   [&](Result<Shrunk> shrunk) { answer = std::move(shrunk).value(); });
    world.run_until([&] { return !shell.shrinks.empty() && shell.shrinks.back() == "leave"; });
    leave(shell);
    world.run_until([&] { return shell.gone; });
    for_a_while(answer);
    if (rank == 2) {
      shell.member->stay();
    } else {
      auto last = shell.member->take_last_link();
      REQUIRE(last);
      REQUIRE(*last);
      shell.member.reset();
      for_a_while(answer);
      last->reset();
      world.run_until([&] { return agree != nullptr; });
      for_a_while(answer);
      agree();
    }
    world.run_until([&] { return answer.has_value(); });
    CHECK(answer->gone == value::Idset::range(rank, rank));
    shell.member.reset();
  }
  world.shells[0].member->hooks().on_gone = nullptr;
  world.leave();
}

TEST_CASE("a shrink of the leader, of nobody, or after the end is refused") {
  World world(3);
  world.start_all();
  std::vector<Error> errors;
  auto take = [&](const Result<Shrunk>& end) { errors.push_back(end.error()); };
  world.shells[1].member->shrink(set_of("0-1"), take);
  world.shells[2].member->shrink(set_of("7"), take);
  world.run_until([&] { return errors.size() == 2; });
  for (const Error& each : errors) CHECK(each.code == EINVAL);
  world.leave();
  world.shells[0].member->shrink(set_of("1"), take);
  CHECK(errors.size() == 3);
  CHECK(errors[2].code == EPIPE);
}

TEST_CASE("a shell that dies while it leaves is not confirmed, and no loss") {
  overlay::OverlayOptions bounds;
  bounds.leave_bound = std::chrono::milliseconds(300);
  bounds.campaign_bound = std::chrono::milliseconds(600);
  World world(4, Over::local, bounds);
  world.start_all();
  world.pass("b");
  std::optional<Shrunk> answer;
  world.shells[0].member->shrink(set_of("1,3"), [&](Result<Shrunk> shrunk) { answer = std::move(shrunk).value(); });
  world.run_until([&] { return !world.shells[1].shrinks.empty() && !world.shells[3].shrinks.empty(); });
  world.shells[1].member.reset();
  leave(world.shells[3]);
  world.run_until([&] { return world.shells[3].gone; });
  world.shells[3].member.reset();
  world.run_until([&] { return answer.has_value(); });
  CHECK(answer->unconfirmed.contains(1));
  CHECK(world.shells[0].lost.empty());
  world.pass("after");
  world.leave();
}
