// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "fewer.hpp"
#include "group/first_words.hpp"
#include "group/overlay_driver.hpp"
#include "group_world.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT

TEST_CASE("shells find each other, pass barriers, and leave together") {
  World world(7, GENERATE(Over::local, Over::tcp));
  world.start_all();
  for (const char* name : {"init", "start", "exit"}) world.pass(name);
  world.leave();
  CHECK(world.all([](const group::FakeShell& shell) { return shell.lost.empty() && shell.cut_off.empty(); }));
}

TEST_CASE("nobody passes a barrier before the last has come") {
  World world(3);
  for (Rank rank : {0, 1, 2}) world.start(rank);
  int passed = 0;
  auto enter = [&](Rank rank) { world.shells[rank].member->enter("b", [&](const Result<void>&) { ++passed; }); };
  enter(0);
  enter(2);
  bool between = false;
  world.shells[0].member->enter("another", [&](const Result<void>&) { between = true; });
  for (Rank rank : {1, 2}) world.shells[rank].member->enter("another", [](const Result<void>&) {});
  world.run_until([&] { return between; });
  CHECK(passed == 0);
  enter(1);
  world.run_until([&] { return passed == 3; });
}

TEST_CASE("what the shells give is gathered, equal parts once, and the largest number is found") {
  World world(5);
  world.start_all();
  std::string long_part(std::size_t{600} << 10, 'x');
  std::vector<Group::Gathered> got;
  for (Rank rank = 0; rank < world.size; ++rank) {
    OverlayDriver& member = *world.shells[rank].member;
    member.gather("g", rank == 3 ? long_part : "same", [&](Result<Group::Gathered> all) {
      INFO((all ? "" : all.error().message));
      REQUIRE(all);
      got.push_back(*std::move(all));
    });
  }
  world.run_until([&] { return got.size() == world.size; });
  for (const Group::Gathered& each : got) {
    REQUIRE(each.size() == 2);
    CHECK(each.at("same").str() == "0-2,4");
    CHECK(each.at(long_part).str() == "3");
  }
  std::vector<std::int64_t> counted;
  auto count = [&](const Result<std::int64_t>& all) { counted.push_back(all.value_or(-1)); };
  for (Rank rank = 0; rank < world.size; ++rank) {
    world.shells[rank].member->sum_with_all("sum", std::int64_t{1} << rank, count);
    world.shells[rank].member->max_with_all("max", rank == 2 ? 40 : rank, count);
  }
  world.run_until([&] { return counted.size() == 2 * std::size_t{world.size}; });
  CHECK(std::count(counted.begin(), counted.end(), 31) == world.size);
  CHECK(std::count(counted.begin(), counted.end(), 40) == world.size);
}

TEST_CASE("what the shells give may be more than a link holds", "[long]") {
  World world(4);
  world.start_all();
  // All together are above the 64 MiB of a link.
  constexpr std::size_t kEach = kit::fewer(std::size_t{34} << 20, std::size_t{2});
  std::size_t told = 0;
  for (Rank rank = 0; rank < world.size; ++rank) {
    std::string part(kEach, static_cast<char>('a' + rank));
    world.shells[rank].member->gather("g", std::move(part), [&](Result<Group::Gathered> all) {
      INFO((all ? "" : all.error().message));
      REQUIRE(all);
      CHECK(all->size() == world.size);
      ++told;
    });
  }
  world.run_until([&] { return told == world.size; });
  CHECK(world.all([](const group::FakeShell& shell) { return shell.lost.empty() && shell.cut_off.empty(); }));
  CHECK_FALSE(world.shells[0].has_logged("control frames"));
}

TEST_CASE("what the shells give and is above the limit ends the job, in words") {
  overlay::OverlayOptions bounds;
  bounds.max_value = 1000;
  World world(3, Over::local, bounds);
  world.start_all();
  for (Rank rank = 0; rank < world.size; ++rank) {
    world.shells[rank].member->gather("pmi.7", std::string(500, static_cast<char>('a' + rank)),
                                      [](const Result<Group::Gathered>&) {});
  }
  world.run_until(
      [&] { return world.all([](const group::FakeShell& shell) { return !shell.exceptions.empty(); }); });
  CHECK(world.shells[2].exceptions[0] ==
        "0 exec 0 1: pmi.7: what the shells give is 1519 bytes together; at most 1000");
}

TEST_CASE("exceptions and signals reach every shell, in one order") {
  World world(6);
  world.start_all();
  for (Rank rank = 0; rank < world.size; ++rank) {
    OverlayDriver& member = *world.shells[rank].member;
    member.raise({"exec", static_cast<int>(rank), fmt::format("said by {}\n\x01\xff", rank),
                  rank == 4 ? std::optional(143) : std::nullopt, 0});
  }
  world.shells[5].member->signal(15, value::Idset::parse("3-9").value());
  world.shells[0].member->signal(10, std::nullopt);
  world.shells[3].member->signal(12, value::Idset());
  world.run_until([&] {
    return world.all([&](const group::FakeShell& shell) {
      return shell.exceptions.size() == world.size && shell.signals.size() == 3;
    });
  });
  for (const group::FakeShell& shell : world.shells) {
    CHECK(shell.exceptions == world.shells[0].exceptions);
    CHECK(shell.signals == world.shells[0].signals);
  }
  auto signals = world.shells[2].signals;
  std::sort(signals.begin(), signals.end());
  CHECK(signals == std::vector<std::string>{"10 for all", "12 for ''", "15 for '3-9'"});
  auto all = world.shells[2].exceptions;
  std::sort(all.begin(), all.end());
  CHECK(all[0] == "0 exec 0 -1: said by 0\n\x01\xef\xbf\xbd");
  CHECK(all[4] == "4 exec 4 143: said by 4\n\x01\xef\xbf\xbd");
  world.leave();
}

TEST_CASE("the leader hears of the tasks of all shells") {
  World world(5);
  world.start_all();
  for (Rank rank = 0; rank < world.size; ++rank) {
    OverlayDriver& member = *world.shells[rank].member;
    member.tasks_started(value::Idset::range(2 * rank, 2 * rank + 1));
    member.tasks_ended({value::Idset::range(2 * rank, 2 * rank), exits::Record::of(value::WaitStatus::exited(0))});
    member.tasks_ended(
        {value::Idset::range(2 * rank + 1, 2 * rank + 1),
         exits::Record::of(rank == 3 ? value::WaitStatus::killed(9) : value::WaitStatus::exited(1))});
  }
  group::FakeShell& leader = world.shells[0];
  world.run_until([&] { return leader.ended.ranks().size() == 10; });
  CHECK(leader.started.str() == "0-9");
  std::string ended;
  for (const auto& [record, tasks] : leader.ended.classes()) ended += record.str() + ":" + tasks.str() + " ";
  CHECK(ended == "s9:7 x0:0,2,4,6,8 x1:1,3,5,9 ");
  for (Rank rank = 1; rank < world.size; ++rank) CHECK(world.shells[rank].ended.ranks().empty());
}

TEST_CASE("a job that ends before all shells have joined does not wait for those that have not") {
  World world(4);
  world.start(0);
  group::FakeShell& other = world.shells[2];
  other.member = OverlayDriver::create(*world.loop, std::move(world.memberships[2]), other.lines).value();
  std::string ended_by;
  other.member->hooks().on_ended = [&](const JobException& raised) { ended_by = raised.message; };
  world.shells[0].member->raise({"exec", 0, "ended by SIGTERM", 143, 0});
  world.run_until([&] { return !ended_by.empty(); });
  CHECK(ended_by == "ended by SIGTERM");
  world.each([](group::FakeShell& shell) { shell.member->give_up_absent(); });
  auto begin = std::chrono::steady_clock::now();
  world.leave();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));  // without that the others would have
                                                                              // a minute to come
}

TEST_CASE("a job that is to end at once waits less for shells that are silent, on all shells") {
  overlay::OverlayOptions bounds;
  bool is_patient = GENERATE(true, false);
  if (!is_patient) bounds.wait_for_silent(overlay::milliseconds(1500));
  World world(4, Over::local, bounds);
  world.start_all();
  world.pass("init");
  auto lowered = [&](const group::FakeShell& shell) {
    const overlay::OverlayOptions& now = shell.member->node().options();
    return now.silent_bound <= Group::kSilentAtEnd && now.hello_bound < overlay::OverlayOptions().hello_bound;
  };
  CHECK(world.all(lowered) != is_patient);
  for (int each = 0; each < 2; ++each) world.shells[2].member->give_up_silent();
  world.pass("exit");
  CHECK(world.all(lowered));
  auto expected = is_patient ? Group::kSilentAtEnd : overlay::milliseconds(1500);
  CHECK(world.all([&](const group::FakeShell& shell) {
    return shell.member->node().options().silent_bound == expected && shell.lost.empty();
  }));
  world.leave();
}

TEST_CASE("what concerns the job is kept until the shell wants to hear it") {
  World world(2);
  group::FakeShell& late = world.shells[1];
  world.start(0);
  late.member = OverlayDriver::create(*world.loop, std::move(world.memberships[1]), late.lines).value();
  world.shells[0].member->raise({"exec", 3, "early", std::nullopt, 0});
  world.pass("init");
  CHECK(late.exceptions.empty());
  late.member->serve(World::callbacks(late));
  world.run_until([&] { return late.exceptions.size() == 1; });
  CHECK(late.exceptions[0] == "0 exec 3 -1: early");
}

TEST_CASE("a shell that dies is lost for all others, and they go on without it") {
  World world(6);
  world.start_all();
  world.pass("init");
  Rank victim = GENERATE(1, 5);  // with children, and without
  world.shells[victim].member.reset();
  world.run_until([&] { return world.all([](const group::FakeShell& shell) { return !shell.lost.empty(); }); });
  world.each([&](group::FakeShell& shell) { CHECK(shell.lost == std::vector<Rank>{victim}); });
  world.pass("start");
  world.leave();
}

TEST_CASE("a shell whose link breaks is not lost because its parent stood still meanwhile") {
  overlay::OverlayOptions bounds;
  bounds.relink_bound = std::chrono::milliseconds(700);
  World world(3, Over::local, bounds);
  world.start_all();
  world.pass("all are there");
  REQUIRE(break_links_to(world.folder.path("s0")) == 2);
  world.loop->poll();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  world.pass("all are there still");
  CHECK(world.all([](const FakeShell& shell) { return shell.lost.empty(); }));
  world.leave();
}

TEST_CASE("a job ends without a shell below that stands still, once that has been silent for its bound") {
  overlay::OverlayOptions bounds;
  bounds.wait_for_silent(overlay::milliseconds(1500));
  auto its_loop = event::Loop::create().value();
  World world(3, Over::local, bounds);
  for (Rank rank : {0, 1}) world.start(rank);
  FakeShell& still = world.shells[2];
  still.member = OverlayDriver::create(*its_loop, std::move(world.memberships[2]), still.lines, bounds).value();
  std::size_t passed = 0;
  world.each([&](FakeShell& shell) { shell.member->enter("init", [&](const Result<void>&) { ++passed; }); });
  auto begin = std::chrono::steady_clock::now();
  while (passed < 3) {
    world.loop->poll();
    its_loop->poll();
    REQUIRE(std::chrono::steady_clock::now() - begin < kPatience);
  }
  begin = std::chrono::steady_clock::now();
  std::vector<Rank> lost;
  world.shells[0].member->hooks().on_lost_at_end = [&](Rank rank) { lost.push_back(rank); };
  for (Rank rank : {0, 1})
    world.shells[rank].member->leave(0, [&, rank](std::optional<int>) { world.shells[rank].gone = true; });
  world.run_until([&] { return world.shells[0].gone && world.shells[1].gone; });
  CHECK(std::chrono::steady_clock::now() - begin <
        std::chrono::seconds(6));  // otherwise it would have 10 s to close its link
  CHECK(lost == std::vector<Rank>{2});
}

TEST_CASE("a shell that cannot be started is lost as soon as its parent is told") {
  World world(4);
  for (Rank rank : {0, 1, 3}) world.start(rank);
  world.shells[0].member->suspect(2);
  world.pass("init");
  CHECK(world.shells[3].lost == std::vector<Rank>{2});
}

TEST_CASE("without its leader a shell is cut off, and all that it waits for ends") {
  overlay::OverlayOptions bounds;
  bounds.fence = overlay::milliseconds(6000);
  World world(3, Over::local, bounds);
  world.start_all();
  world.pass("init");
  int failed = 0;
  for (Rank rank : {1, 2}) {
    world.shells[rank].member->enter("start", [&](const Result<void>& result) {
      CHECK_FALSE(result);
      ++failed;
    });
  }
  world.shells[0].member.reset();
  world.run_until([&] { return failed == 2; });
  for (Rank rank : {1, 2}) {
    CHECK_FALSE(world.shells[rank].cut_off.empty());
    bool answered = false;
    world.shells[rank].member->gather("late", "x", [&](const Result<Group::Gathered>& all) { answered = !all; });
    CHECK(answered);
  }
  world.leave(std::nullopt);
}

TEST_CASE("a shell of another protocol is refused, and both say why") {
  // The first words of a shell of a later version.
  World world(2);
  group::FakeShell& leader = world.shells[0];
  world.start(0);
  auto credentials = transport::Credentials::create(value::JobId(kTestJob).f58_plain(), secret_of('a')).value();
  transport::OwnedLink link;
  std::string answer;
  bool closed = false;
  auto dialler =
      transport::Dialer::create(*world.loop, *credentials, leader.member->membership().directory.find(0), {},
                                [&](Result<transport::OwnedLink> made) {
                                  link = std::move(made).value();
                                  transport::Link::Callbacks callbacks;
                                  callbacks.on_frame = [&](std::string_view frame) { answer = frame; };
                                  callbacks.on_closed = [&](const std::optional<Error>&) { closed = true; };
                                  link->serve(std::move(callbacks));
                                  CHECK(link->send(R"({"nacre":"9.0","protocol":99,"from":1,"to":0})"));
                                })
          .value();
  world.run_until([&] { return closed; });
  CHECK(answer == fmt::format(R"({{"from":0,"nacre":"1.2.3","protocol":{},"to":1}})", group::kProtocol));
  CHECK(leader.has_logged(
      fmt::format("error: shell 1 is of nacre 9.0 with protocol 99, and this one of 1.2.3 with protocol {}",
                  group::kProtocol)));
  world.run_until([&] { return !leader.lost.empty(); });
  CHECK(leader.lost == std::vector<Rank>{1});
}

TEST_CASE("who speaks without being introduced, or for another shell, is refused") {
  World world(2);
  group::FakeShell& leader = world.shells[0];
  world.start(0);
  auto credentials = transport::Credentials::create(value::JobId(kTestJob).f58_plain(), secret_of('a')).value();
  auto [frame, why] = GENERATE(table<std::string, std::string>({
      {fmt::format(R"({{"nacre":"1","protocol":{},"from":1,"to":5}})", group::kProtocol),
       "shell 1 looks for shell 5, and this is 0"},
      {fmt::format(R"({{"nacre":"1","protocol":{},"from":0,"to":0}})", group::kProtocol),
       "a link leads back to this shell"},
      {R"({"nacre":"1","protocol":"1","from":1,"to":0})", "first words.protocol: expected"},
      {R"({"nacre)", "first words: not JSON: line 1"},
      {"{" + std::string(5000, ' '), "first words: too long"},
      {"garbage", "refused: "},
  }));
  transport::OwnedLink link;
  bool closed = false;
  auto dialler =
      transport::Dialer::create(*world.loop, *credentials, leader.member->membership().directory.find(0), {},
                                [&, text = frame](Result<transport::OwnedLink> made) {
                                  link = std::move(made).value();
                                  transport::Link::Callbacks callbacks;
                                  callbacks.on_closed = [&](const std::optional<Error>&) { closed = true; };
                                  link->serve(std::move(callbacks));
                                  CHECK(link->send(text));
                                })
          .value();
  world.run_until([&] { return closed; });
  CHECK(leader.has_logged(why));
  world.start(1);
  world.pass("init");
}

// The leader is lost, and the others go on with another one.

namespace nacre::group {
namespace {

struct Followers {
  explicit Followers(World& of) : world(of) {
    world.start_all();
    for (Rank rank = 0; rank < world.size; ++rank) {
      FakeShell& shell = world.shells[rank];
      shell.member->hand_over(false, 1);
      Group::Callbacks callbacks = World::callbacks(shell);
      callbacks.on_leader = [this, rank](Rank leader) { told[rank].push_back(fmt::format("leader {}", leader)); };
      callbacks.on_leading = [this, rank] { told[rank].emplace_back("leading"); };
      callbacks.on_lost = [this, rank](Rank lost) { told[rank].push_back(fmt::format("lost {}", lost)); };
      callbacks.on_announcement = [this, rank](std::string_view topic, std::string_view bytes) {
        told[rank].push_back(fmt::format("{} {}", topic, bytes));
      };
      shell.member->serve(std::move(callbacks));
    }
    world.pass("init");
  }
  // Whether all shells that are left have been told `count` things.
  [[nodiscard]] bool have(std::size_t count) const {
    for (Rank rank = 0; rank < world.size; ++rank) {
      auto found = told.find(rank);
      if (world.shells[rank].member && (found == told.end() || found->second.size() < count)) return false;
    }
    return true;
  }

  World& world;
  std::map<Rank, std::vector<std::string>> told;
};

using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("the leader is lost: all hear who leads now, and who that is gets the ends of all tasks") {
  World world(5);
  Followers followers(world);
  for (Rank rank = 0; rank < world.size; ++rank) {
    world.shells[rank].member->tasks_started(value::Idset::range(rank, rank));
    if (rank != 2)
      world.shells[rank].member->tasks_ended({value::Idset::range(rank, rank), exits::Record::gone({})});
  }
  world.run_until([&] { return world.shells[0].ended.ranks().size() == 4; });
  CHECK(world.shells[1].ended.ranks().empty());
  world.shells[0].member.reset();
  world.run_until([&] { return followers.have(2); });
  for (Rank rank : {2, 3, 4}) {
    CHECK(followers.told[rank] == Told{"leader 1", "lost 0"});
    CHECK(world.shells[rank].ended.ranks().empty());
    CHECK(world.shells[rank].member->leader() == 1);
  }
  world.run_until([&] { return followers.told[1].size() == 3; });
  CHECK(followers.told[1] == Told{"leader 1", "leading", "lost 0"});
  CHECK(world.shells[1].ended.ranks().str() == "1,3-4");
  CHECK(world.shells[1].started.str() == "1-4");
  // From then on all is as before.
  REQUIRE(world.shells[4].member->announce("topic", "text"));
  world.run_until([&] { return followers.have(3); });
  CHECK(followers.told[3].back() == "topic text");
  world.pass("exit");
  world.leave();
}

TEST_CASE("what the lost leader had not taken comes to the next one, each record once and in order") {
  World world(4);
  Followers followers(world);
  std::map<bulk::Id, std::string> came;
  bool takes = true;
  auto serve = [&](Rank rank) {
    bulk::Port& port = *world.shells[rank].member->bulk();
    bulk::Port::Upward upward;
    upward.on_record = [&, rank](bulk::Id origin, bulk::Numbered number, std::string_view bytes) {
      if (!takes) return;
      came[origin] += bytes.empty() ? "." : bytes;
      world.shells[rank].member->bulk()->taken(origin, number);
    };
    port.serve(bulk::up::kOutput, std::move(upward));
  };
  for (Rank rank = 0; rank < world.size; ++rank) serve(rank);
  auto put = [&](const char* text) {
    for (Rank rank : {1, 2, 3}) CHECK(world.shells[rank].member->bulk()->put(bulk::up::kOutput, text).value());
  };
  put("a");
  world.run_until([&] { return came.size() == 3; });
  world.pass("what was taken is known");
  takes = false;
  put("b");
  put("c");
  world.pass("all has come");
  world.shells[0].member.reset();
  takes = true;
  put("d");
  world.run_until([&] { return followers.have(2); });
  for (Rank rank : {1, 2, 3}) world.shells[rank].member->close_bulk();
  world.run_until([&] {
    return std::all_of(came.begin(), came.end(), [](const auto& each) { return each.second.ends_with('.'); });
  });
  for (Rank rank : {1, 2, 3}) CHECK(came[rank] == "abcd.");
  world.leave();
}

TEST_CASE("an order, a barrier and an end go on under the next leader, and it may be lost, too") {
  World world(5);
  Followers followers(world);
  std::size_t passed = 0;
  for (Rank rank : {2, 3, 4})
    world.shells[rank].member->enter("late", [&](const Result<void>& result) { passed += result ? 1 : 0; });
  world.shells[0].member.reset();
  world.run_until([&] { return followers.have(2); });
  world.shells[1].member->enter("late", [&](const Result<void>& result) { passed += result ? 1 : 0; });
  world.run_until([&] { return passed == 4; });
  world.shells[1].member.reset();
  world.run_until([&] { return followers.have(4); });
  const Rank leader = world.shells[2].member->leader();
  CHECK(leader != 1);
  CHECK(world.all([&](const FakeShell& shell) { return shell.member->leader() == leader; }));
  world.leave();
}

TEST_CASE("the next leader takes in new shells, and one of these leads once others are lost") {
  World world(7);
  Followers followers(world);
  auto lose = [&](Rank leader, Rank next) {
    world.shells[leader].member.reset();
    world.run_until(
        [&] { return world.all([&](const FakeShell& shell) { return shell.member->leader() == next; }); });
  };
  lose(0, 1);
  CHECK(world.shells[1].member->first_unused() == 7);
  std::optional<Result<value::Grown>> end;
  world.shells[1].member->grow(value::Idset::range(7, 8), std::chrono::milliseconds(60'000),
                               [&](Result<value::Grown> grown) { end = std::move(grown); });
  for (int i = 0; i < 2; ++i) world.start_newcomer(Over::local, 1);
  world.run_until([&] { return end.has_value(); });
  CHECK((*end)->joined.str() == "7-8");
  CHECK(world.shells[2].member->first_unused() == 9);
  // The last one has the place of who leads.
  lose(1, 6);
  lose(6, 8);
  world.leave();
}

// The leader tells its own owner of an entry once all members have it, but some members act on it before.
TEST_CASE("what a shell puts because of an announcement comes to the leader behind that") {
  World world(5);
  Followers followers(world);
  Told& told = followers.told[0];
  for (Rank rank = 0; rank < world.size; ++rank) {
    Group::Callbacks callbacks = World::callbacks(world.shells[rank]);
    callbacks.on_announcement = [&, rank](std::string_view, std::string_view bytes) {
      if (rank == 0) return told.push_back(fmt::format("announced {}", bytes));
      CHECK(world.shells[rank].member->bulk()->put(bulk::up::kOutput, bytes).value());
    };
    world.shells[rank].member->serve(std::move(callbacks));
    bulk::Port::Upward upward;
    upward.on_record = [&](bulk::Id origin, bulk::Numbered number, std::string_view bytes) {
      told.push_back(fmt::format("done {}", bytes));
      world.shells[0].member->bulk()->taken(origin, number);
    };
    world.shells[rank].member->bulk()->serve(bulk::up::kOutput, std::move(upward));
  }
  for (int i = 0; i < 50; ++i) {
    told.clear();
    REQUIRE(world.shells[0].member->announce("do", std::to_string(i)));
    world.run_until([&] { return told.size() == 5; });
    CHECK(told.front() == fmt::format("announced {}", i));
  }
  world.leave();
}

TEST_CASE("of two shells the one that is left ends") {
  overlay::OverlayOptions bounds;
  bounds.fence = overlay::milliseconds(6000);
  World world(2, Over::local, bounds);
  Followers followers(world);
  world.shells[0].member.reset();
  world.run_until([&] { return !world.shells[1].cut_off.empty(); });
  world.leave(std::nullopt);
}

}  // namespace nacre::group
