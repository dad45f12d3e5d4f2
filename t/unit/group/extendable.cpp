// SPDX-License-Identifier: Apache-2.0
//
// The only shell of a job, before and after others can join it.
#include "group/extendable.hpp"

#include "group_world.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT

namespace {

constexpr std::chrono::milliseconds kTimeToJoin{60'000};
constexpr bulk::Channel kChannel = bulk::up::kUsage;

// Shell 0 of 1, which records what it is told.
struct First {
  explicit First(World& where) : world(where) {
    Group::Callbacks callbacks;
    callbacks.on_signal = [this](int signum, const Targets&) { story += fmt::format("signal {};", signum); };
    callbacks.on_exec = [this](const value::ExecShare& share) { orders.push_back(share.number); };
    callbacks.on_announcement = [this](std::string_view topic, std::string_view bytes) {
      story += fmt::format("{}: {};", topic, bytes);
    };
    callbacks.on_tasks = [this](const value::Idset&, const std::vector<Ended>& tasks) {
      for (const Ended& each : tasks) ended.insert(each.tasks);
    };
    callbacks.on_shrunk = [this](const value::Shrunk& shrunk) {
      story += fmt::format("gone {};", shrunk.gone.str());
    };
    group.serve(std::move(callbacks));
    bulk::Port::Upward owner;
    owner.on_record = [this](bulk::Id origin, bulk::Numbered number, std::string_view bytes) {
      records += fmt::format("{} {};", origin, bytes);
      group.bulk()->taken(origin, number);
    };
    group.bulk()->serve(kChannel, std::move(owner));
    group.bulk()->serve_no_more();
  }

  void order() {
    group.exec(
        {{{0, {}}}, "ls", false, value::ExecOrder::Kind::tool},
        [this](const Result<value::ExecAnswer>& answer) { answered += answer && answer->number > 0 ? 1 : 0; });
  }
  void extend() { REQUIRE(group.extend(*world.loop, std::move(world.memberships[0]), log)); }
  FakeShell& grow(Rank rank) {
    std::optional<value::Idset> joined;
    group.grow(value::Idset::range(rank, rank), kTimeToJoin,
               [&joined](const Result<value::Grown>& grown) { joined = grown ? grown->joined : value::Idset(); });
    FakeShell& out = world.start_newcomer();
    world.run_until([&] { return joined.has_value(); });
    CHECK(joined->str() == std::to_string(rank));
    return out;
  }

  World& world;
  Log log;
  Extendable group;
  std::string story;
  std::string records;
  std::vector<std::uint64_t> orders;
  int answered = 0;
  value::Idset ended;
};

}  // namespace

TEST_CASE("a shell that may get others is alone until then: nothing of it waits, and nothing can be sent") {
  World world(1);
  First first(world);
  bool passed = false;
  first.group.enter("init", [&](const Result<void>& result) { passed = result.has_value(); });
  CHECK(passed);
  REQUIRE(first.group.announce("topic", "bytes"));
  first.group.signal(15, std::nullopt);
  CHECK(first.story == "topic: bytes;signal 15;");
  first.order();
  CHECK(first.orders == std::vector<std::uint64_t>{Extendable::kFirstOrder});
  first.group.tasks_ended({value::Idset::range(2, 3), exits::Record::lost()});
  CHECK(first.ended.str() == "2-3");
  CHECK(first.group.bulk()->put(kChannel, "x").error().code == ENOTCONN);
  CHECK(first.group.bulk()->broadcast(bulk::down::kExecInput, "x").error().code == ENOTCONN);
  std::optional<Error> refused;
  first.group.grow(value::Idset::range(1, 1), kTimeToJoin, [&](const Result<value::Grown>& grown) {
    if (!grown) refused = grown.error();
  });
  CHECK(refused);
  std::optional<int> code;
  first.group.leave(3, [&](std::optional<int> agreed) { code = agreed; });
  CHECK(code == 3);
}

TEST_CASE("others join the only shell of a job, leave, and join again") {
  World world(1, GENERATE(Over::local, Over::tcp));
  First first(world);
  first.order();
  first.group.tasks_ended({value::Idset::range(0, 0), exits::Record::lost()});
  first.group.wait_for_silent(std::chrono::seconds(20));
  first.extend();
  FakeShell& second = first.grow(1);
  // Callbacks from before still count, and this shell still gets its own reports.
  REQUIRE(second.member->bulk()->put(kChannel, "from 1"));
  world.run_until([&] { return !first.records.empty(); });
  CHECK(first.records == "1 from 1;");
  first.group.tasks_ended({value::Idset::range(1, 1), exits::Record::lost()});
  second.member->tasks_ended({value::Idset::range(2, 2), exits::Record::lost()});
  world.run_until([&] { return first.ended.str() == "0-2"; });
  first.group.signal(10, std::nullopt);
  first.order();
  world.run_until([&] { return first.orders.size() == 2 && !second.signals.empty(); });
  CHECK(first.story == "signal 10;");
  CHECK(first.answered == 2);
  CHECK(first.orders[0] == Extendable::kFirstOrder);
  CHECK(first.orders[1] < Extendable::kFirstOrder);
  // The shell's own barriers do not wait for the other shell.
  bool passed = false;
  first.group.enter("start", [&](const Result<void>& result) { passed = result.has_value(); });
  world.run_until([&] { return passed; });
  bool shrunk = false;
  first.group.shrink(value::Idset::range(1, 1),
                     [&](const Result<value::Shrunk>& end) { shrunk = end && end->gone.contains(1); });
  world.run_until([&] { return !second.shrinks.empty(); });
  second.member->leave(0, [&second](std::optional<int>) { second.gone = true; });
  world.run_until([&] { return second.gone; });
  second.member.reset();
  world.run_until([&] { return shrunk; });
  FakeShell& third = first.grow(2);
  std::int64_t all = 0;
  for (Group* each : {static_cast<Group*>(&first.group), static_cast<Group*>(third.member.get())})
    each->sum_with_all("exit", 20, [&all](const Result<std::int64_t>& sum) { all += sum ? *sum : 0; });
  world.run_until([&] { return all == 80; });
  std::optional<int> code;
  std::optional<int> others;
  first.group.leave(5, [&](std::optional<int> agreed) { code = agreed; });
  third.member->leave(0, [&](std::optional<int> agreed) { others = agreed; });
  world.run_until([&] { return code && others; });
  CHECK(*code == 5);
  CHECK(*others == 5);
}
