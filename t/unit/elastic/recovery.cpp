// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include <catch2/catch.hpp>

using namespace nacre;  // NOLINT
using elastic::Recovery;
using elastic::RestartMessage;
using elastic::Restarts;

namespace {

// Two tasks on each of three shells, and a spare.
struct Fixture {
  Fixture() {
    for (std::uint32_t shell = 0; shell < 4; ++shell)
      job.resources.nodes.push_back({shell, "n", value::Idset::range(0, 1), {}, {}});
    job.taskmap = value::Taskmap::block({2, 2, 2, 0});
    job.spares = 1;
  }

  static RestartMessage asked(std::uint32_t shell, std::vector<value::Idset::Id> ranks, std::uint32_t attempt = 1) {
    RestartMessage out;
    out.shell = shell;
    for (value::Idset::Id rank : ranks)
      out.ends.push_back({rank, attempt, exits::Record::of(value::WaitStatus::exited(3)), 0.5});
    return out;
  }

  job::Job job;
  value::Idset gone;
  Restarts restarts{Restarts::Limits{3, 2, 1, 60}};
  Recovery recovery{job, restarts, [this](std::uint32_t shell) { return !gone.contains(shell); }};
};

}  // namespace

TEST_CASE("ends that are decided alike are one decision, up to the restarts that there are") {
  Fixture it;
  auto decided = it.recovery.decide(Fixture::asked(0, {0, 1}));
  REQUIRE(decided.decisions.size() == 1);
  CHECK(decided.decisions[0].ranks.str() == "0-1");
  CHECK(decided.decisions[0].first == 1);
  CHECK(decided.decisions[0].last == 2);
  CHECK(decided.decisions[0].attempt == 2);
  CHECK(it.job.attempt_of(1) == 2);
  auto last = it.recovery.decide(Fixture::asked(1, {2, 3}));
  REQUIRE(last.decisions.size() == 2);
  CHECK(last.decisions[0].is_granted());
  CHECK_FALSE(last.decisions[1].is_granted());
  CHECK(it.job.attempt_of(3) == 1);
}

TEST_CASE("what came before an end makes it fall") {
  Fixture it;
  CHECK(it.recovery.decide(Fixture::asked(0, {2})).fallen.str() == "2");     // it is on shell 1
  CHECK(it.recovery.decide(Fixture::asked(0, {0}, 2)).fallen.str() == "0");  // its first start counts
  CHECK(it.recovery.decide(Fixture::asked(0, {9})).fallen.str() == "9");
  it.gone.insert(0);
  CHECK(it.recovery.decide(Fixture::asked(0, {0})).fallen.str() == "0");
  CHECK(it.restarts.used() == 0);
}

TEST_CASE("all tasks of a shell, or of the job, start again for one restart") {
  Fixture it;
  auto of_shell = it.recovery.decide_together(Fixture::asked(1, {2}));
  CHECK(of_shell.is_granted());
  CHECK(of_shell.together.str() == "2-3");
  CHECK(it.job.attempt_of(3) == 2);
  RestartMessage whole = Fixture::asked(0, {0});
  whole.whole = true;
  CHECK(it.recovery.decide(whole).decisions.empty());  // the leader's answer decides
  auto all = it.recovery.decide_together(whole);
  CHECK(all.together.str() == "0-5");
  CHECK(it.job.attempt_of(3) == 3);
  CHECK(it.restarts.used() == 2);
  auto again = it.recovery.decide_together(whole);  // of a start that counts no more
  CHECK_FALSE(again.stands);
  CHECK(it.restarts.used() == 2);
}

TEST_CASE("an order for all has an effect only if nothing has started again since it was answered") {
  Fixture it;
  RestartMessage order;
  order.whole = order.ordered = true;
  order.restarts = it.job.restarts;
  REQUIRE(it.recovery.decide_order(order));
  CHECK(it.job.attempt_of(5) == 2);
  CHECK_FALSE(it.recovery.decide_order(order));
  CHECK(it.restarts.used() == 0);
}

TEST_CASE("tasks of a lost shell go to those that stay, as one restart") {
  Fixture it;
  it.gone.insert(0);
  std::vector<job::Move> moves{{value::Idset::range(2, 2), 1, 2, 2}, {value::Idset::range(3, 3), 1, 0, 2}};
  std::string text = elastic::text_of(moves);
  CHECK(text == R"({"from":1,"moves":[{"ranks":"2","to":2,"try":2},{"ranks":"3","to":0,"try":2}]})");
  auto read = elastic::parse_moves(text, 4, 6).value();
  auto stand =
      Recovery::move(it.job, std::move(read), [&](std::uint32_t shell) { return !it.gone.contains(shell); });
  REQUIRE(stand.size() == 1);
  CHECK(stand[0].to == 2);
  CHECK(it.job.restarts == 1);
  CHECK(it.job.taskmap.node_of(2) == 2U);
  CHECK(it.job.taskmap.node_of(3) == 1U);
  CHECK(Recovery::move(it.job, {moves[1]}, [](std::uint32_t) { return false; }).empty());
  CHECK(it.job.restarts == 1);
  CHECK_FALSE(elastic::parse_moves(text, 2, 6));
  CHECK_FALSE(elastic::parse_moves(text, 4, 3));
  CHECK_FALSE(elastic::parse_moves(R"({"from":1,"moves":[]})", 4, 6));
}

TEST_CASE("what shells announce of restarts reads back to the same") {
  RestartMessage message = Fixture::asked(2, {4, 5});
  message.ordered = true;
  CHECK(message.asked() == R"({"ends":[[4,1,"x3",0.5],[5,1,"x3",0.5]],"ordered":true,"shell":2,"whole":false})");
  message.whole = true;
  message.why_not = "no";
  auto read = RestartMessage::parse(message.answered(), 3).value();
  CHECK(read.why_not == "no");
  CHECK(read.ordered);
  CHECK(read.ends.size() == 2);
  RestartMessage all;
  all.whole = all.ordered = true;
  all.restarts = 7;
  CHECK(RestartMessage::parse(all.answered(), 1).value().restarts == 7);
  CHECK_FALSE(RestartMessage::parse("{}", 1));
}
