// SPDX-License-Identifier: Apache-2.0
//
// Orders to start something (Group::exec) over real links.

#include "group_world.hpp"
#include "overlay/wire.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT
using value::ExecOrder;

namespace {

value::Idset ids(const char* text) { return value::Idset::parse(text).value(); }

}  // namespace

TEST_CASE("an order reaches the shells that it names, and who asked gets its number first") {
  World world(5);
  world.start_all();
  Rank from = GENERATE(0U, 4U);  // the leader, and a leaf
  group::FakeShell& asker = world.shells[from];
  asker.member->exec({{{1, ids("3-4")}, {from, {}}}, "ls", true, ExecOrder::Kind::tool}, [&](auto answer) {
    REQUIRE(answer);
    CHECK(answer->lost.empty());
    asker.orders.push_back(fmt::format("answer {}", answer->number));
  });
  world.run_until([&] { return asker.orders.size() == 2 && !world.shells[1].orders.empty(); });
  std::string number = asker.orders[0].substr(7);
  CHECK(asker.orders[1] == number + "  ls");
  CHECK(world.shells[1].orders == std::vector<std::string>{number + " 3-4 ls"});
  world.pass("b");
  CHECK(world.shells[2].orders.empty());
  world.leave();
}

TEST_CASE("a strict order for a shell that is lost is refused and names it; another goes to the others") {
  World world(4);
  world.start_all();
  world.pass("b");
  world.shells[3].member.reset();
  world.run_until([&] { return !world.shells[1].lost.empty(); });
  std::vector<value::ExecAnswer> answers;
  auto take = [&](Result<value::ExecAnswer> answer) {
    REQUIRE(answer);
    answers.push_back(*std::move(answer));
  };
  ExecOrder order{{{1, ids("0")}, {3, ids("5,7")}}, "ls", true, ExecOrder::Kind::tasks};
  world.shells[0].member->exec(order, take);
  world.run_until([&] { return answers.size() == 1; });
  CHECK(answers[0].number == 0);
  CHECK(answers[0].lost.str() == "3");
  order.strict = false;
  world.shells[0].member->exec(order, take);
  world.run_until([&] { return answers.size() == 2 && !world.shells[1].orders.empty(); });
  CHECK(world.shells[1].orders[0] == fmt::format("{} 0,5,7 ls", answers[1].number));
  world.leave();
}

TEST_CASE("an order that is too long, or comes after the end, is an error") {
  World world(2);
  world.start_all();
  std::vector<Error> errors;
  auto take = [&](const Result<value::ExecAnswer>& answer) { errors.push_back(answer.error()); };
  std::string long_command(overlay::kMaxData + 1, 'x');
  world.shells[1].member->exec({{{0, {}}}, long_command, true, ExecOrder::Kind::tool}, take);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == EMSGSIZE);
  world.leave();
  world.shells[1].member->exec({{{0, {}}}, "ls", true, ExecOrder::Kind::tool}, take);
  REQUIRE(errors.size() == 2);
  CHECK(errors[1].code == EPIPE);
}

TEST_CASE("signals and orders for very many ranks go in several sets", "[long]") {
  std::vector<value::Idset::Id> odd;
  for (value::Idset::Id rank = 1; rank < 200'000; rank += 2) odd.push_back(rank);
  value::Idset many = value::Idset::of(odd);
  REQUIRE(many.str().size() > overlay::kMaxIds);
  World world(3);
  world.start_all();
  world.shells[2].member->signal(10, many);
  world.shells[2].member->exec({{{1, many}}, "ls", true, ExecOrder::Kind::tool},
                               [](const auto& answer) { CHECK(answer); });
  world.run_until([&] { return !world.shells[1].orders.empty(); });
  CHECK(world.shells[1].orders[0].find(" " + many.str() + " ls") != std::string::npos);
  CHECK(world.shells[1].signals.size() > 1);
  CHECK(world.all([](const group::FakeShell& shell) { return shell.lost.empty() && shell.cut_off.empty(); }));
  world.leave();
}
