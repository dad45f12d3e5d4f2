// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre;
using doctor::Doing;
using doctor::Fact;
using doctor::PipeEnd;
using doctor::TaskGroup;

namespace {

TaskGroup group(value::Idset::Id rank, Fact fact) {
  TaskGroup out;
  out.ranks.insert(rank);
  out.fact = std::move(fact);
  out.cpu.add(rank * 0.25);
  return out;
}

Fact full_fact() {
  Fact out;
  out.doing = Doing::stuck;
  out.program = "solver";
  out.where = "folio_wait";
  out.call = "read";
  out.object = "pipe";
  out.writer = PipeEnd::itself;
  out.is_input = true;
  out.reader = PipeEnd::shell;
  out.moves = true;
  out.wakes = true;
  out.locked = 3;
  out.steps = doctor::Steps::none;
  out.pmi = "connected";
  out.barrier = 7;
  out.stack = {"main", "solve", "MPI_Barrier (libmpich.so.12)"};
  out.others = {{"work", "futex"}, {"work", "poll"}};
  return out;
}

}  // namespace

TEST_CASE("what is no group is refused, with the place") {
  Json good = group(1, Fact()).json();
  auto refused = [&](const char* name, const Json& value) {
    Json json = good;
    json[name] = value;
    auto parsed = TaskGroup::parse(json);
    return parsed ? "taken" : parsed.error().message;
  };
  CHECK(refused("doing", "dances") == "doing: no such name");
  CHECK(refused("writer", "me") == "writer: no such name");
  CHECK(refused("ranks", "") == "ranks: a group has at least one");
  CHECK(refused("steps", "two") == "steps: no such name");
  CHECK(refused("locked", -1).starts_with("locked: expected"));
  CHECK(refused("other_stacks", "main").starts_with("other_stacks: expected"));
  CHECK(refused("barrier", -1).starts_with("barrier: expected"));
  CHECK(refused("stack", 5).starts_with("stack: expected"));
  CHECK(refused("cpu", Json::object()).starts_with("cpu: "));
  CHECK_FALSE(TaskGroup::parse(Json::array()));
}

TEST_CASE("groups with equal facts become one, and the largest comes first") {
  Fact busy;
  busy.doing = Doing::busy;
  Fact asleep;
  asleep.call = "read";
  TaskGroup second = group(2, asleep);
  second.path = "/two";
  TaskGroup first = group(1, asleep);
  first.path = "/one";
  auto out = doctor::folded({second, group(5, busy), first, group(4, asleep), group(0, full_fact())});
  REQUIRE(out.size() == 3);
  CHECK(out[0].ranks.str() == "1-2,4");
  CHECK(out[0].path == "/one");
  CHECK(out[0].cpu.least == 0.25);
  CHECK(out[0].cpu.most == 1);
  CHECK(out[0].cpu.count == 3);
  CHECK(out[1].ranks.str() == "0");
  CHECK(out[2].ranks.str() == "5");
}

TEST_CASE("any member that differs keeps groups apart") {
  auto changed = [](auto change) {
    Fact other = full_fact();
    change(other);
    return doctor::folded({group(0, full_fact()), group(1, other)}).size();
  };
  CHECK(changed([](Fact&) {}) == 1);
  CHECK(changed([](Fact& fact) { fact.doing = Doing::sleeps; }) == 2);
  CHECK(changed([](Fact& fact) { fact.program = "sh"; }) == 2);
  CHECK(changed([](Fact& fact) { fact.where = "do_wait"; }) == 2);
  CHECK(changed([](Fact& fact) { fact.call = "write"; }) == 2);
  CHECK(changed([](Fact& fact) { fact.object = "socket"; }) == 2);
  CHECK(changed([](Fact& fact) { fact.writer = PipeEnd::others; }) == 2);
  CHECK(changed([](Fact& fact) { fact.is_input = false; }) == 2);
  CHECK(changed([](Fact& fact) { fact.reader = PipeEnd::others; }) == 2);
  CHECK(changed([](Fact& fact) { fact.moves = false; }) == 2);
  CHECK(changed([](Fact& fact) { fact.wakes = false; }) == 2);
  CHECK(changed([](Fact& fact) { fact.locked = 0; }) == 2);
  CHECK(changed([](Fact& fact) { fact.steps = doctor::Steps::some; }) == 2);
  CHECK(changed([](Fact& fact) { fact.others.clear(); }) == 2);
  CHECK(changed([](Fact& fact) { fact.pmi.clear(); }) == 2);
  CHECK(changed([](Fact& fact) { fact.barrier = 8; }) == 2);
  CHECK(changed([](Fact& fact) { fact.stack.pop_back(); }) == 2);
}
