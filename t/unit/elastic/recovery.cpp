// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "elastic/recovery.hpp"

using namespace nacre;  // NOLINT
using elastic::ExpectedStarts;
using elastic::Recovery;
using elastic::Replacements;
using elastic::RestartMessage;
using elastic::Restarts;
using elastic::Starts;
using value::Idset;

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
  CHECK(it.recovery.decide(Fixture::asked(0, {2})).fallen.str() == "2");     // task 2 is on shell 1
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
  auto again = it.recovery.decide_together(whole);  // for a start that does not count any more
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
  std::string text = elastic::Replacement{moves}.text();
  CHECK(text == R"({"from":1,"moves":[{"ranks":"2","to":2,"try":2},{"ranks":"3","to":0,"try":2}]})");
  auto read = elastic::Replacement::parse(text, 4, 6).value();
  CHECK(read.from() == 1);
  CHECK_FALSE(read.all);
  auto stand =
      Recovery::move(it.job, std::move(read.moves), [&](std::uint32_t shell) { return !it.gone.contains(shell); });
  REQUIRE(stand.size() == 1);
  CHECK(stand[0].to == 2);
  CHECK(it.job.restarts == 1);
  CHECK(it.job.taskmap.node_of(2) == 2U);
  CHECK(it.job.taskmap.node_of(3) == 1U);
  CHECK(Recovery::move(it.job, {moves[1]}, [](std::uint32_t) { return false; }).empty());
  CHECK(it.job.restarts == 1);
  CHECK_FALSE(elastic::Replacement::parse(text, 2, 6));
  CHECK_FALSE(elastic::Replacement::parse(text, 4, 3));
  CHECK_FALSE(elastic::Replacement::parse(R"({"from":1,"moves":[]})", 4, 6));
}

TEST_CASE("all tasks start again with those of a lost shell, for one restart, and all of it or nothing") {
  Fixture it;
  elastic::Replacement lost{{{value::Idset::range(2, 2), 1, 2, 2}, {value::Idset::range(3, 3), 1, 3, 2}}};
  lost.all = {0, 0.5, std::nullopt};
  std::string text = lost.text();
  CHECK(text.find(R"("all":{"ran":0.5,"restarts":0})") != std::string::npos);
  auto read = elastic::Replacement::parse(text, 4, 6).value();
  CHECK(read.ranks().str() == "2-3");
  it.gone.insert(3);
  CHECK_FALSE(it.recovery.decide_replacement(read));  // one of the decision's shells has gone
  CHECK(it.job.restarts == 0);
  it.gone.remove(3);
  auto decision = it.recovery.decide_replacement(read);
  REQUIRE(decision);
  CHECK(decision->is_granted());
  CHECK(decision->together.str() == "0-5");
  CHECK(decision->delay == 1);
  CHECK(decision->last == 1);
  CHECK(it.job.restarts == 1);
  for (value::Idset::Id rank = 0; rank < 6; ++rank) CHECK(it.job.attempt_of(rank) == 2);
  CHECK(it.job.taskmap.node_of(3) == 3U);
  CHECK_FALSE(it.recovery.decide_replacement(read));  // all tasks have started again since
  CHECK(it.restarts.used() == 1);
}

TEST_CASE(
    "a loss while all wait to start again uses no restart; without one left it is refused, and nothing moves") {
  Fixture it;
  RestartMessage whole = Fixture::asked(0, {0});
  whole.whole = true;
  auto before = it.recovery.decide_together(whole);
  elastic::Replacement lost{{{value::Idset::range(2, 3), 1, 3, 3}}};
  lost.all = {it.job.restarts, 0, before.delay};
  auto joins = it.recovery.decide_replacement(elastic::Replacement::parse(lost.text(), 4, 6).value());
  REQUIRE(joins);
  CHECK(joins->is_granted());
  CHECK(joins->delay == before.delay);
  CHECK(joins->last == 1);
  CHECK(it.restarts.used() == 1);
  CHECK(it.job.attempt_of(0) == 3);
  CHECK(it.job.attempt_of(2) == 3);
  while (it.restarts.used() < 3) CHECK(it.restarts.take_job(0, std::nullopt));
  elastic::Replacement next{{{value::Idset::range(4, 5), 2, 1, 4}}};
  next.all = {it.job.restarts, 0, std::nullopt};
  auto refused = it.recovery.decide_replacement(next);
  REQUIRE(refused);
  CHECK(refused->why_not == "the job has used 3 of 3 restarts");
  CHECK(it.job.taskmap.node_of(4) == 2U);
  CHECK(it.job.attempt_of(0) == 3);
}

// ---- where=spare ---------------------------------------------------------------------------------

namespace {

// Two tasks on each of two shells, and three spares, the first of which has one core only.
struct WithSpares : Fixture {
  WithSpares() {
    job.resources.nodes.push_back({4, "n", value::Idset::range(0, 1), {}, {}});
    job.resources.nodes[2].cores = value::Idset::range(0, 0);
    job.taskmap = value::Taskmap::block({2, 2, 0, 0, 0});
    job.spares = 3;
    recovery.use_spares(false);
  }
  elastic::SparePlaces place(std::uint32_t shell, std::vector<value::Idset::Id> ranks, bool together = false) {
    elastic::SpareRequest asked{shell, together, {}};
    for (value::Idset::Id rank : ranks) asked.starts.emplace_back(rank, job.attempt_of(rank));
    return recovery.place(elastic::SpareRequest::parse(asked.text(), job.shells(), job.tasks()).value());
  }
  [[nodiscard]] std::uint32_t shell_of(value::Idset::Id rank) const { return job.taskmap.node_of(rank).value(); }
};

}  // namespace

TEST_CASE("a task goes to the first spare that has room, and none goes back to where one has failed") {
  WithSpares it;
  REQUIRE(it.recovery.decide(Fixture::asked(0, {0})).decisions.size() == 1);
  auto first = it.place(0, {0});
  REQUIRE(first.moves.size() == 1);
  CHECK(first.moves[0].ranks.str() == "0");
  CHECK(first.moves[0].from == 0);
  CHECK(first.moves[0].to == 2);
  CHECK(first.moves[0].attempt == 2);
  CHECK(it.shell_of(0) == 2);
  CHECK(it.job.attempt_of(0) == 2);
  CHECK(it.job.restarts == 1);  // the restart, and not the move
  CHECK_FALSE(it.job.is_spare(2));
  // No core is free beside it, so the other task takes the next spare.
  CHECK(it.place(0, {1}).moves.at(0).to == 3);
  CHECK(it.place(2, {0}).moves.at(0).to == 4);
  // Tasks have left shells 0 and 2.
  auto none = it.place(1, {2, 3});
  CHECK(none.moves.empty());
  CHECK(none.stay.str() == "2-3");
  CHECK(none.why == "there is no spare left");
  CHECK(it.shell_of(2) == 1);
}

TEST_CASE("tasks of one shell follow each other to a spare that has room for them") {
  WithSpares it;
  it.gone.insert(2);
  CHECK(it.place(1, {2}).moves.at(0).to == 3);
  CHECK(it.place(1, {3}).moves.at(0).to == 3);
  auto both = it.place(0, {0, 1});  // both at once are placed like one after the other
  REQUIRE(both.moves.size() == 1);
  CHECK(both.moves[0].to == 4);
  CHECK(both.moves[0].ranks.str() == "0-1");
}

TEST_CASE("a task does not follow another one of its shell to a spare that is lost") {
  WithSpares it;
  it.gone.insert(2);
  CHECK(it.place(1, {2}).moves.at(0).to == 3);
  it.gone.insert(3);
  CHECK(it.place(1, {3}).moves.at(0).to == 4);
}

TEST_CASE("tasks that start together need a spare for all of them") {
  WithSpares it;
  it.gone.insert(3);
  it.gone.insert(4);
  auto none = it.place(1, {2, 3}, true);
  CHECK(none.stay.str() == "2-3");
  CHECK(none.why == "the spare shell 2 has 1 core, and they need 2 cores");
  it.gone.remove(4);
  CHECK(it.place(1, {2, 3}, true).moves.at(0).to == 4);
}

TEST_CASE("what came before a request for a spare makes it fall") {
  WithSpares it;
  elastic::SpareRequest late{0, false, {{0, 2}}};  // its first start counts
  CHECK(it.recovery.place(late).moves.empty());
  CHECK(it.recovery.place(late).stay.empty());
  CHECK(it.recovery.place({1, false, {{0, 1}}}).stay.empty());  // task 0 is on shell 0
  it.gone.insert(0);
  CHECK(it.recovery.place({0, false, {{0, 1}}}).stay.empty());
  CHECK_FALSE(elastic::SpareRequest::parse(R"({"shell":0,"together":false,"starts":[]})", 5, 4));
  CHECK_FALSE(elastic::SpareRequest::parse(R"({"shell":5,"together":false,"starts":[[0,1]]})", 5, 4));
  CHECK_FALSE(elastic::SpareRequest::parse(R"({"shell":0,"together":false,"starts":[[4,1]]})", 5, 4));
}

TEST_CASE(
    "all start again, and those of the shell of the one that failed on a spare; an order leaves all in place") {
  WithSpares it;
  RestartMessage whole = Fixture::asked(1, {2});
  whole.whole = true;
  auto all = it.recovery.decide_together(whole);
  REQUIRE(all.is_granted());
  REQUIRE(all.places.moves.size() == 1);
  CHECK(all.places.moves[0].to == 3);
  CHECK(all.places.moves[0].ranks.str() == "2-3");
  CHECK(all.places.moves[0].attempt == 2);
  CHECK(all.moves(2));
  CHECK_FALSE(all.moves(0));
  CHECK(it.shell_of(3) == 3);
  for (value::Idset::Id rank : {0, 1, 2, 3}) CHECK(it.job.attempt_of(rank) == 2);
  CHECK(it.job.restarts == 1);
  RestartMessage again = Fixture::asked(3, {2}, 2);
  again.whole = true;
  CHECK(it.recovery.decide_together(again).places.moves.at(0).to == 4);
  RestartMessage last = Fixture::asked(0, {0}, 3);
  last.whole = true;
  auto none = it.recovery.decide_together(last);
  REQUIRE(none.is_granted());
  CHECK(none.places.moves.empty());
  CHECK(none.places.why == "the spare shell 2 has 1 core, and they need 2 cores");
  CHECK(it.job.attempt_of(0) == 4);
  RestartMessage order;
  order.whole = order.ordered = true;
  order.restarts = it.job.restarts;
  CHECK(it.recovery.decide_order(order)->places.moves.empty());
}

TEST_CASE("tasks of a lost shell do not go to a spare that others have taken meanwhile") {
  WithSpares it;
  CHECK(it.place(0, {0}).moves.at(0).to == 2);
  auto may_take = [&](std::uint32_t shell) { return it.recovery.may_take(shell); };
  CHECK(Recovery::move(it.job, {{value::Idset::range(2, 3), 1, 2, 2}}, may_take).empty());
  CHECK(Recovery::move(it.job, {{value::Idset::range(2, 3), 1, 3, 2}}, may_take).size() == 1);
}

TEST_CASE("what has come no further by its restarts does not start again, alone or with its shell") {
  Fixture it;
  job::RestartOption option;
  option.no_progress = job::RestartOption::NoProgress{2, job::RestartOption::NoProgress::Look::output, "step"};
  elastic::RestartProgress progress{option};
  it.recovery.watch(progress);
  auto asked = [](std::uint32_t attempt, std::vector<std::string> seen) {
    RestartMessage out = Fixture::asked(0, {0, 1}, attempt);
    out.seen = std::move(seen);
    return out;
  };
  it.restarts = Restarts(Restarts::Limits{100, 100, 0, 0});
  CHECK(it.recovery.decide(asked(1, {"5", "5"})).decisions.size() == 1);
  CHECK(it.recovery.decide(asked(2, {"5", "6"})).decisions.size() == 1);
  CHECK(it.recovery.decide(asked(3, {})).decisions.size() == 1);  // the program's progress could not be read
  RestartMessage by_hand = asked(4, {"5", "6"});
  by_hand.ordered = true;
  CHECK(it.recovery.decide(by_hand).decisions.size() == 1);
  const std::uint64_t used = it.restarts.used();
  auto last = it.recovery.decide(asked(5, {"5", "6"}));
  REQUIRE(last.decisions.size() == 2);
  CHECK(last.decisions[0].ends_job);
  CHECK_FALSE(last.decisions[0].is_granted());
  CHECK(last.decisions[0].why_not.starts_with("restart: 2 restarts have brought no progress since "));
  CHECK(last.decisions[1].is_granted());
  CHECK(it.restarts.used() == used + 1);
  CHECK(it.job.attempt_of(0) == 5);

  for (std::uint32_t attempt : {1, 2, 3}) {
    RestartMessage node = Fixture::asked(1, {attempt == 2 ? 2U : 3U}, attempt);
    node.seen = {"7"};
    auto decision = it.recovery.decide_together(node);
    CHECK(decision.ends_job == (attempt == 3));
    CHECK(decision.is_granted() == (attempt < 3));
  }
}

// ---- resizes ----------------------------------------------------------------------------

namespace {

// One task on each of three shells; one more shell may get tasks.
job::Job job_with_range() {
  Json text = Json::parse(R"({"version": 1, "resources": [{"type": "node", "count": "1-4", "with": [{"type": "slot",
      "count": 1, "label": "t", "with": [{"type": "core", "count": 1}]}]}],
      "tasks": [{"command": ["a"], "slot": "t", "count": {"per_slot": 1}}],
      "attributes": {"system": {"duration": 0}}})");
  job::Resources resources;
  for (std::uint32_t i = 0; i < 3; ++i) resources.nodes.push_back({i, "n", value::Idset::range(0, 3), {}, {}});
  job::Job out = job::Job::create(value::JobId(1), 0, job::Jobspec::from_json(text).value(), std::move(resources),
                                  std::nullopt)
                     .value();
  REQUIRE(out.allow_resizes());
  out.grow({{0, "n", value::Idset::range(0, 3), {}, {}}});
  return out;
}

}  // namespace

TEST_CASE("all start again without a lost shell, for one restart; nothing has an effect if something came before") {
  job::Job job = job_with_range();
  elastic::Restarts restarts({1});
  value::Idset here = value::Idset::range(0, 3);
  elastic::Recovery recovery(job, restarts, [&](std::uint32_t shell) { return here.contains(shell); });
  here.remove(1);
  elastic::JobResize what{value::Idset::parse("0,2").value(), 1, {0, 5}};
  auto decision = recovery.decide_resize(what);
  REQUIRE(decision);
  CHECK(decision->is_granted());
  CHECK(decision->whole);
  CHECK(decision->resizes);
  CHECK(decision->ranks.str() == "1");
  CHECK(decision->together.str() == "0-1");
  CHECK(decision->last == 1);
  CHECK(job.restarts == 1);
  CHECK(job.taskmap.raw() == "0;;1");
  CHECK_FALSE(recovery.decide_resize(what));  // the request was sent before the loss
  here.remove(2);
  // a shell of the request was lost meanwhile
  CHECK_FALSE(recovery.decide_resize({value::Idset::parse("0,2").value(), 3, {1}}));
  CHECK(recovery.decide_resize({value::Idset::range(0, 0), 2, {1}})->why_not == "the job has used 1 of 1 restarts");
  CHECK(job.tasks() == 2);
  // While all wait to start again a resize is no additional restart.
  CHECK(recovery.decide_resize({value::Idset::range(0, 0), 2, {1, 0, 3.0}})->delay == 3.0);
  CHECK(job.tasks() == 1);
}

TEST_CASE("that others have joined uses no restart") {
  job::Job job = job_with_range();
  elastic::Restarts restarts({0});
  elastic::Recovery recovery(job, restarts, [](std::uint32_t) { return true; });
  auto decision = recovery.decide_resize({value::Idset::range(0, 3), std::nullopt, {0}});
  REQUIRE(decision);
  CHECK(decision->is_granted());
  CHECK(decision->ordered);
  CHECK(decision->last == 0);
  CHECK(decision->together.str() == "0-3");
  CHECK(job.restarts == 1);
}

TEST_CASE("a job of one size is not resized") {
  job::Job job = job_with_range();
  job.tasks_each = 0;
  elastic::Restarts restarts({3});
  elastic::Recovery recovery(job, restarts, [](std::uint32_t) { return true; });
  CHECK_FALSE(recovery.decide_resize({value::Idset::range(0, 1), 2, {0}}));
}

TEST_CASE("what is announced of a resize reads back to the same") {
  elastic::JobResize what{value::Idset::range(0, 2), 0, {4, 1.5, 2.0}};
  auto read = elastic::JobResize::parse(what.text(), 4).value();
  CHECK(read.text() == what.text());
  CHECK(read.lost == 0);
  CHECK(read.shells.str() == "0-2");
  CHECK(read.all.restarts == 4);
  CHECK_FALSE(
      elastic::JobResize::parse(elastic::JobResize{value::Idset::range(0, 2), {}, {4}}.text(), 4).value().lost);
  CHECK_FALSE(elastic::JobResize::parse(what.text(), 2));
  CHECK_FALSE(elastic::JobResize::parse(R"({"shells": "", "all": {"restarts": 0, "ran": 0}})", 2));
  CHECK_FALSE(elastic::JobResize::parse(R"({"shells": "0", "lost": 2, "all": {"restarts": 0, "ran": 0}})", 2));
  CHECK_FALSE(elastic::JobResize::parse("{}", 2));
}

TEST_CASE("restarts of all tasks share one limit, and each has its number") {
  Restarts restarts({3});
  CHECK(restarts.take(7, 1)->number == 1);
  CHECK(restarts.take(2, 1)->number == 2);
  CHECK(restarts.take(7, 1)->number == 3);
  CHECK(restarts.take(5, 1).error().message == "the job has used 3 of 3 restarts");
  CHECK(restarts.take_job(1, 5).error().message == "the job has used 3 of 3 restarts");
  CHECK(restarts.take_node(2, 1, 5).error().message == "the job has used 3 of 3 restarts");
  CHECK(restarts.used() == 3);
}

TEST_CASE("a task may have a limit of its own, and what is refused by it uses nothing") {
  Restarts restarts({4, 2});
  CHECK(restarts.take(0, 1));
  CHECK(restarts.take(0, 1));
  CHECK(restarts.take(0, 1).error().message == "the task has used 2 of 2 restarts");
  CHECK(restarts.take(1, 1)->number == 3);
  CHECK(restarts.take_job(1, std::nullopt)->number == 4);  // a lost shell's
  CHECK_FALSE(restarts.take(1, 1));
}

TEST_CASE("where tasks start again together the one that has failed pays for it, and no other") {
  Restarts restarts({100, 2});
  CHECK(restarts.take_job(1, 0));
  CHECK(restarts.take_node(7, 1, 0));
  CHECK(restarts.take_job(1, 0).error().message == "the task has used 2 of 2 restarts");
  CHECK(restarts.take_node(7, 1, 0).error().message == "the task has used 2 of 2 restarts");
  CHECK(restarts.take(0, 1).error().message == "the task has used 2 of 2 restarts");
  CHECK(restarts.take_job(1, 1)->number == 3);
  CHECK(restarts.take_job(1, std::nullopt)->number == 4);
}

TEST_CASE("the wait doubles for each task up to the longest, and begins anew after a long run") {
  Restarts restarts({1000, 1000, 0.5, 5});
  for (double expected : {0.5, 1.0, 2.0, 4.0, 5.0, 5.0}) CHECK(restarts.take(3, 1)->delay == expected);
  CHECK(restarts.take(4, 1)->delay == 0.5);
  CHECK(restarts.take(3, Restarts::kSteady - 1)->delay == 5);
  CHECK(restarts.take(3, Restarts::kSteady)->delay == 0.5);
  CHECK(restarts.take(3, 1)->delay == 1);
  for (double expected : {0.5, 1.0, 2.0}) CHECK(restarts.take_job(1, 9)->delay == expected);
  for (double expected : {0.5, 1.0, 2.0}) CHECK(restarts.take_node(7, 1, 9)->delay == expected);
  CHECK(restarts.take_node(8, 1, 9)->delay == 0.5);
  CHECK(restarts.take_node(7, Restarts::kSteady, 9)->delay == 0.5);
  Restarts at_once({1000, 1000, 0, 0});
  for (int i = 0; i < 100; ++i) CHECK(at_once.take(0, 0)->delay == 0);
}

TEST_CASE("who takes what others have been granted goes on as they do") {
  Restarts first({10, 3, 1, 60});
  for (int i = 0; i < 2; ++i) REQUIRE(first.take(4, 1));
  REQUIRE(first.take_job(1, std::nullopt));
  Restarts second({10, 3, 1, 60});
  REQUIRE(second.take(JsonAt::root(first.json())));
  for (Restarts* each : {&first, &second}) {
    CHECK(each->take(4, 1)->number == 4);
    CHECK(each->take(4, 1).error().message == "the task has used 3 of 3 restarts");
    CHECK(each->take_job(1, std::nullopt)->delay == 2);
  }
  for (const char* text :
       {"[]", R"({"used": 1, "jobs_in_a_row": 0})", R"({"used": -1, "jobs_in_a_row": 0, "tasks": []})",
        R"({"used": 1, "jobs_in_a_row": 0, "tasks": [[1, 2]]})"}) {
    CAPTURE(text);
    Json json = Json::parse(text);
    CHECK_FALSE(second.take(JsonAt::root(json)));
  }
}

namespace {

constexpr std::array<Replacements::Spare, 3> kSpares{{{4, {2, 0}}, {5, {4, 2}}, {6, {8, 0}}}};

}  // namespace

TEST_CASE("the first spare that has what the tasks need takes them over") {
  Replacements replacements;
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 5);
  Replacements others;
  CHECK(others.choose(kSpares, {1, 0}).value() == 4);
  CHECK(others.choose(kSpares, {1, 1}).value() == 5);
}

TEST_CASE("a spare is promised once, until the log has the decision") {
  Replacements replacements;
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 5);
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 6);
  auto none = replacements.choose(kSpares, {4, 0});
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "the spare shell 4 has 2 cores, and they need 4 cores");
  replacements.ordered(6, 4);
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 6);
}

TEST_CASE("tasks go to the shells with the fewest, as far as these have room; of equal ones to the first") {
  using Shells = std::vector<std::uint32_t>;
  constexpr std::array<Replacements::Other, 3> kOthers{{{2, 2, 1}, {1, 1, 2}, {0, 2, 4}}};
  Replacements replacements;
  CHECK(replacements.spread(kOthers, 4).value() == Shells{1, 2, 1, 0});
  auto none = replacements.spread(kOthers, 4);  // the room is already promised
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "the other shells have room for 3 of 4 tasks");
  replacements.ordered(1, 2);
  replacements.ordered(7, 1);
  CHECK(replacements.spread(kOthers, 4).value() == Shells{1, 1, 0, 0});
  CHECK(Replacements().spread({}, 1).error().message == "the other shells have room for 0 of 1 task");
}

TEST_CASE("a spare that is promised gets no tasks of others") {
  constexpr std::array<Replacements::Other, 2> kOthers{{{4, 0, 2}, {0, 5, 2}}};
  Replacements replacements;
  CHECK(replacements.choose(kSpares, {1, 0}).value() == 4);
  CHECK(replacements.spread(kOthers, 1).value() == std::vector<std::uint32_t>{0});
}

TEST_CASE("why no spare takes over is said in words") {
  Replacements replacements;
  CHECK(replacements.choose({}, {1, 0}).error().message == "there is no spare left");
  CHECK(replacements.choose(kSpares, {1, 4}).error().message ==
        "the spare shell 4 has 2 cores and 0 gpus, and they need 1 core and 4 gpus");
}

namespace {

Idset ranks_of(const char* text) { return Idset::parse(text).value(); }

}  // namespace

TEST_CASE("each start of a task has a number, which leads back to it") {
  const Starts starts(6);
  CHECK(starts.number(0, 1) == 0);
  CHECK(starts.number(5, 1) == 5);
  CHECK(starts.number(2, 2) == 8);
  CHECK(starts.number(2, 4) == 20);
  auto by_start = starts.ranks(ranks_of("0-5"));
  CHECK(by_start.size() == 1);
  CHECK(by_start.at(1).str() == "0-5");
  by_start = starts.ranks(ranks_of("0,4-8,20"));  // a range over two starts
  CHECK(by_start.size() == 3);
  CHECK(by_start.at(1).str() == "0,4-5");
  CHECK(by_start.at(2).str() == "0-2");
  CHECK(by_start.at(4).str() == "2");
  CHECK(starts.ranks({}).empty());
}

TEST_CASE("numbers of starts end with those of an idset") {
  CHECK(Starts(1).most() == UINT32_MAX);
  CHECK(Starts(1).number(0, UINT32_MAX) == Idset::kMaxId);
  const Starts large(std::uint64_t{1} << 24);
  CHECK(large.most() == 255);
  CHECK(large.number((1U << 24) - 1, 255) <= Idset::kMaxId);
  auto by_start = large.ranks(Idset::range(large.number(7, 255), large.number(9, 255)));
  CHECK(by_start.at(255).str() == "7-9");
}

TEST_CASE("only the expected start of a rank counts, whatever comes late") {
  ExpectedStarts expected;
  CHECK(expected.current(ranks_of("0-5"), 1).str() == "0-5");
  CHECK(expected.current(ranks_of("0-5"), 2).empty());
  expected.expect(ranks_of("2-3"), 2);
  CHECK(expected.current(ranks_of("0-5"), 1).str() == "0-1,4-5");
  CHECK(expected.current(ranks_of("0-5"), 2).str() == "2-3");
  expected.expect(ranks_of("3"), 3);
  CHECK(expected.current(ranks_of("0-5"), 1).str() == "0-1,4-5");
  CHECK(expected.current(ranks_of("0-5"), 2).str() == "2");
  CHECK(expected.current(ranks_of("0-5"), 3).str() == "3");
  // A decision that was withdrawn is made again, with the same number.
  expected.expect(ranks_of("3"), 3);
  CHECK(expected.current(ranks_of("3"), 3).str() == "3");
}
