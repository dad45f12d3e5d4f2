// SPDX-License-Identifier: Apache-2.0
//
// Shells that are taken out of a job (Group::shrink) over real links.

#include "group_world.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT
using value::Shrunk;

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
