// SPDX-License-Identifier: Apache-2.0
#include "exits/job_end.hpp"

#include <csignal>

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre;
using namespace nacre::exits;
using value::Idset;
using value::WaitStatus;

namespace {

Outcomes outcomes_of(std::initializer_list<std::pair<const char*, const char*>> tasks) {
  Outcomes out;
  for (const auto& [ranks, record] : tasks) out.add(*Idset::parse(ranks), *Record::parse(record));
  return out;
}

std::string by(const JobEnd& end, const Outcomes& outcomes, const Policy& policy) {
  return summary(end, outcomes, policy, end.code(outcomes, policy))["exit"]["by"];
}

}  // namespace

TEST_CASE("a summary has the code, the policy, and all tasks by their records") {
  JobEnd end;
  Outcomes outcomes = outcomes_of({{"1", "s11+"}, {"0,2-3", "c/s15"}});
  end.ordered({"task 1 killed", std::nullopt, 0, TaskEnd{1, *Record::parse("s11+")}});
  CHECK(summary(end, outcomes, Policy::max(), 139) ==
        Json{{"exit", {{"code", 139}, {"policy", "max"}, {"main", 0}, {"by", "the cause"}}},
             {"tasks", {{"s11+", "1"}, {"c/s15", "0,2-3"}}},
             {"cause", "task 1 killed"},
             {"rule", {{"main", 0}, {"first", "s11+"}}}});
}

TEST_CASE("a summary has what another policy would have to know") {
  auto rule = [](const JobEnd& end, const Outcomes& outcomes, const Policy& policy) {
    return summary(end, outcomes, policy, end.code(outcomes, policy))["rule"];
  };
  Outcomes outcomes = outcomes_of({{"2", "x77"}, {"1", "x3"}, {"0", "x0"}});
  CHECK(rule({}, outcomes, Policy::max()) == Json{{"main", 0}, {"first", "x77"}});
  CHECK(rule({}, outcomes, Policy(Policy::Kind::main, 2, *Idset::parse("77"))) ==
        Json{{"main", 2}, {"ok", "77"}, {"first", "x3"}});
  JobEnd lost;
  lost.ordered({"a shell is lost", std::nullopt, 1});
  CHECK(rule(lost, outcomes_of({{"0", "x0"}, {"1", "l"}}), Policy::max()) ==
        Json{{"main", 0}, {"first", "l"}, {"least", 1}});
  JobEnd interrupted;
  interrupted.ordered(ended_by_signal(SIGINT, 0));
  CHECK(rule(interrupted, outcomes_of({{"0-1", "c/s15"}}), Policy::max())["fixed"] == true);
  JobEnd killed;
  killed.sent_to_tasks(SIGKILL);
  CHECK(rule(killed, outcomes_of({{"0-1", "s9"}}), Policy::max())["fixed"] == true);
}

TEST_CASE("a summary has the record of the task that has ended the job, though it has not been reported") {
  JobEnd end;
  end.ordered({"why", std::nullopt, 0, TaskEnd{1, *Record::parse("x3")}});
  CHECK(summary(end, outcomes_of({{"0", "x0"}}), Policy::max(), 3)["tasks"] == Json{{"x0", "0"}, {"x3", "1"}});
}

TEST_CASE("a summary says why the code is this one") {
  using Kind = Policy::Kind;
  Outcomes two = outcomes_of({{"5", "x3"}, {"1", "x9"}, {"0,2-4", "x0"}});
  CHECK(by({}, outcomes_of({{"0-3", "x0"}}), Policy::max()) == "success");
  CHECK(by({}, two, Policy::max()) == "task 1");
  CHECK(by({}, two, Policy(Kind::first, 0)) == "the first task that failed");
  CHECK(by({}, two, Policy(Kind::all, 0)) == "not all tasks succeeded");
  CHECK(by({}, two, Policy(Kind::main, 5)) == "task 5, the main rank");
  CHECK(by({}, two, Policy(Kind::main_and_all, 1)) == "task 1, the main rank");
  CHECK(by({}, two, Policy(Kind::main_and_all, 0)) == "not all tasks succeeded");
  CHECK(by({}, outcomes_of({{"0", "c"}}), Policy(Kind::main, 0)) == "the main rank has no exit code of its own");
  JobEnd aborted;
  aborted.ordered({"rank 1 called abort", 7, 0, TaskEnd{1, Record::victim({})}});
  CHECK(by(aborted, outcomes_of({{"0-1", "c/s15"}}), Policy(Kind::main, 0)) == "the cause");
  JobEnd sent;
  sent.sent_to_tasks(SIGINT);
  CHECK(by(sent, outcomes_of({{"0-3", "s2"}}), Policy(Kind::all, 0)) == "a signal to all tasks");
  JobEnd signalled;
  signalled.ordered(ended_by_signal(SIGTERM, 0));
  CHECK(by(signalled, outcomes_of({{"0-3", "c/s15"}}), Policy(Kind::all, 0)) == "the cause");
  JobEnd timeout;
  timeout.ordered({"exit-timeout", std::nullopt, 0});
  CHECK(by(timeout, outcomes_of({{"0", "x0"}, {"1", "c/s15"}}), Policy::max()) ==
        "the job was ended before its time");
}
