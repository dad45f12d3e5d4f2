// SPDX-License-Identifier: Apache-2.0
#include "group/alone.hpp"

#include "catch.hpp"

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
