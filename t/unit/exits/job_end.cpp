// SPDX-License-Identifier: Apache-2.0
#include "exits/job_end.hpp"

#include <random>

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre::exits;  // NOLINT
using nacre::value::Idset;
using nacre::value::WaitStatus;

namespace {

const Policy kMax = Policy::max();

Outcomes outcomes_of(std::initializer_list<Record> records) {
  Outcomes out;
  Idset::Id rank = 0;
  for (const Record& each : records) {
    out.add(Idset::range(rank, rank), each);
    ++rank;
  }
  return out;
}

const Outcomes kNone;
const Outcomes kGood = outcomes_of({Record::of(WaitStatus::exited(0))});
const Outcomes kVictims = outcomes_of({Record::victim(WaitStatus::killed(SIGTERM)), Record::victim({})});

}  // namespace

TEST_CASE("which tasks a signal is for") {
  TaskProgress tasks;
  CHECK(work_for(tasks, true) == Work::starting);
  tasks.running = true;
  CHECK(work_for(tasks, false) == Work::starting);
  tasks.started = true;
  CHECK(work_for(tasks, false) == Work::running);
  tasks.running = false;
  CHECK(work_for(tasks, false) == Work::elsewhere);
  CHECK(work_for(tasks, true) == Work::running);
  tasks.over = true;
  CHECK(work_for(tasks, true) == Work::over);
}

TEST_CASE("a job that nothing ends has the policy's code") {
  JobEnd end;
  CHECK_FALSE(end.is_ending());
  CHECK_FALSE(end.cause());
  CHECK(end.code(kNone, kMax) == 0);
  CHECK(end.code(outcomes_of({Record::of(WaitStatus::exited(3))}), kMax) == 3);
}

TEST_CASE("running to ending: the first failure of this shell, once") {
  JobEnd end;
  CHECK(end.raised({"one", std::nullopt, 2}) == Action::end);
  CHECK(end.is_ending());
  CHECK_FALSE(end.is_killed());
  CHECK(end.raised({"two", 9, 2}) == Action::nothing);
  CHECK(end.cause() == Cause{"one", std::nullopt, 2});
  CHECK(end.code(kVictims, kMax) == 1);
  CHECK(end.code(outcomes_of({Record::of(WaitStatus::killed(11)), Record::victim({})}), kMax) == 139);
}

TEST_CASE(
    "a job that the end of a task has ended has the policy's code, which counts that end before its record has "
    "come") {
  JobEnd end;
  Record crash = Record::of(WaitStatus::killed(11));
  CHECK(end.raised({"task 1 killed by SIGSEGV", 139, 0, TaskEnd{1, crash}}) == Action::end);
  CHECK(end.code(kNone, kMax) == 139);
  Outcomes outcomes = outcomes_of({Record::victim({}), crash, Record::victim(WaitStatus::killed(15))});
  CHECK(end.code(outcomes, kMax) == 139);
  CHECK(end.code(outcomes, Policy(Policy::Kind::main, 0)) == 1);
  CHECK(end.code(outcomes, Policy(Policy::Kind::all, 0)) == 1);
  CHECK(end.code(outcomes, Policy(Policy::Kind::first, 0)) == 139);
  Outcomes main_succeeded = outcomes_of({Record::of(WaitStatus::exited(0)), crash});
  CHECK(end.code(main_succeeded, Policy(Policy::Kind::main, 0)) == 0);
}

TEST_CASE("a task that could not be started stands for those that were not tried any more") {
  JobEnd end;
  Record none = Record::not_started(127);
  CHECK(end.raised({"task 2: no such command", 127, 0, TaskEnd{2, none}}) == Action::end);
  Outcomes outcomes = outcomes_of({Record::victim({}), Record::victim(WaitStatus::killed(15)), none});
  CHECK(end.code(outcomes, Policy(Policy::Kind::main, 0)) == 127);
  CHECK(end.code(outcomes, Policy(Policy::Kind::main, 1)) == 1);
  CHECK(end.code(outcomes, kMax) == 127);
}

TEST_CASE(
    "tasks that a signal from outside has ended give its code under each policy, as long as nothing else failed") {
  Record ended = Record::of(WaitStatus::killed(SIGTERM));
  Outcomes all = outcomes_of({ended, ended, Record::of(WaitStatus::exited(0))});
  Outcomes crashed = outcomes_of({ended, Record::of(WaitStatus::killed(SIGSEGV))});
  for (auto kind : {Policy::Kind::max, Policy::Kind::main, Policy::Kind::all, Policy::Kind::main_and_all,
                    Policy::Kind::first}) {
    Policy policy(kind, 2);
    JobEnd end;
    CHECK(end.code(all, Policy(Policy::Kind::all, 0)) == 1);
    end.sent_to_tasks(SIGTERM);
    CHECK(end.code(all, policy) == 143);
    int expected =
        kind == Policy::Kind::first ? 139 : policy.code(crashed);  // tasks that have failed by themselves come
                                                                   // first
    CHECK(end.code(crashed, policy) == expected);
    CHECK(end.raised({"task 0 killed by SIGTERM", 143, 0, TaskEnd{0, ended}}) == Action::end);
    CHECK(end.code(all, policy) == 143);
  }
}

TEST_CASE("a task that has caught a signal from outside, and exits with 128 + N, has not failed by itself") {
  const Outcomes caught = outcomes_of({Record::of(WaitStatus::exited(143))});
  JobEnd end;
  CHECK_FALSE(end.cancelled(caught, kMax));
  CHECK(end.failure_class(caught, kMax) == FailureClass::user);
  end.sent_to_tasks(SIGTERM);
  CHECK(end.cancelled(caught, kMax) == 143);
  CHECK_FALSE(end.failure_class(caught, kMax));
  CHECK_FALSE(end.cancelled(outcomes_of({Record::of(WaitStatus::exited(130))}), kMax));
  CHECK_FALSE(end.cancelled(outcomes_of({Record::of(WaitStatus::exited(15))}), kMax));
}

TEST_CASE("running to ending: another shell's failure, the first in the common order") {
  JobEnd end;
  CHECK(end.ordered({"theirs", 7, 1}) == Action::end);
  CHECK(end.ordered({"later", 8, 2}) == Action::nothing);
  CHECK(end.raised({"mine", 9, 0}) == Action::nothing);
  CHECK(end.cause()->message == "theirs");
  CHECK(end.code(kGood, kMax) == 7);
}

TEST_CASE("the common order decides, not which failure this shell saw first") {
  JobEnd end;
  CHECK(end.raised({"mine", 9, 0}) == Action::end);
  CHECK(end.code(kGood, kMax) == 9);
  CHECK(end.ordered({"theirs", 7, 1}) == Action::nothing);  // the job is being ended already
  CHECK(end.ordered({"mine", 9, 0}) == Action::nothing);
  CHECK(end.cause()->message == "theirs");
  CHECK(end.code(kGood, kMax) == 7);
}

TEST_CASE("the cause's own code is the job's, whatever the tasks' are, and never 0") {
  for (auto [code, counts_as] :
       std::vector<std::pair<int, int>>{{3, 3}, {0, 1}, {256, 255}, {-1, 255}, {143, 143}}) {
    JobEnd end;
    end.raised({"why", code, 0});
    INFO(code);
    CHECK(end.code(outcomes_of({Record::of(WaitStatus::exited(200))}), kMax) == counts_as);
  }
}

TEST_CASE(
    "the first task that fails by itself is the first, though a signal from outside has ended others before") {
  JobEnd end;
  end.sent_to_tasks(SIGINT);
  Outcomes outcomes = outcomes_of({Record::of(WaitStatus::killed(SIGINT)), Record::of(WaitStatus::exited(3))});
  CHECK(end.code(outcomes, Policy(Policy::Kind::first, 0)) == 3);
  CHECK(end.code(outcomes, kMax) == 130);
  end.ordered({"task 1 exited with code 3", std::nullopt, 0, TaskEnd{1, Record::of(WaitStatus::exited(3))}});
  CHECK(end.code(outcomes, Policy(Policy::Kind::first, 0)) == 3);
}

TEST_CASE("a task that still runs may be who has ended the job: the code is the cause's, under each policy") {
  JobEnd end;
  end.ordered({"rank 2 called abort", 7, 0, TaskEnd{2, Record::victim({})}});
  Outcomes outcomes = outcomes_of({Record::of(WaitStatus::exited(0)), Record::victim(WaitStatus::killed(15))});
  for (auto kind : {Policy::Kind::max, Policy::Kind::main, Policy::Kind::all, Policy::Kind::first})
    CHECK(end.code(outcomes, Policy(kind, 0)) == 7);
  CHECK(end.known(outcomes).of(1) == Record::victim(WaitStatus::killed(15)));
  CHECK(end.known(outcomes).ranks() == outcomes.ranks());
}

TEST_CASE("SIGTERM, SIGHUP and SIGQUIT: to the tasks that run, else they end the job") {
  for (int signum : {SIGTERM, SIGHUP, SIGQUIT}) {
    INFO(signum);
    CHECK(JobEnd().signalled(signum, 0, Work::starting) == Action::end);
    CHECK(JobEnd().signalled(signum, 0, Work::running) == Action::pass_on);
    CHECK(JobEnd().signalled(signum, 0, Work::elsewhere) == Action::nothing);
    CHECK(JobEnd().signalled(signum, 0, Work::over) == Action::end);
    JobEnd ending;
    ending.raised({"why", {}, 0});
    for (Work work : {Work::starting, Work::running, Work::elsewhere, Work::over})
      CHECK(ending.signalled(signum, 0, work) == Action::nothing);
  }
}

TEST_CASE("SIGINT: to the tasks, and a second one within two seconds ends the job; a third kills") {
  JobEnd end;
  CHECK(end.signalled(SIGINT, 10, Work::running) == Action::pass_on);
  CHECK(end.signalled(SIGINT, 12.1, Work::running) == Action::pass_on);
  CHECK_FALSE(end.is_ending());
  CHECK(end.signalled(SIGINT, 14.1, Work::running) == Action::end);
  CHECK_FALSE(end.is_killed());
  CHECK(end.raised(ended_by_signal(SIGINT, 0)) == Action::end);
  CHECK(end.signalled(SIGINT, 14.2, Work::running) == Action::kill);
  CHECK(end.is_killed());
  CHECK(end.code(kVictims, kMax) == 130);
}

TEST_CASE("SIGINT where no task of this shell runs") {
  CHECK(JobEnd().signalled(SIGINT, 0, Work::starting) == Action::end);
  CHECK(JobEnd().signalled(SIGINT, 0, Work::over) == Action::end);
  JobEnd end;
  CHECK(end.signalled(SIGINT, 0, Work::elsewhere) == Action::nothing);
  CHECK(end.signalled(SIGINT, 1, Work::elsewhere) == Action::end);
}

TEST_CASE("a signal that ends the job gives 128 and its number") {
  CHECK(ended_by_signal(SIGINT, 4) == Cause{"interrupted", 130, 4});
  CHECK(ended_by_signal(SIGTERM, 0) == Cause{"ended by SIGTERM", 143, 0});
  CHECK(ended_by_signal(SIGHUP, 0).code == 129);
  CHECK(ended_by_signal(SIGQUIT, 0).code == 131);
}

TEST_CASE("cut off: the tasks are killed at once, and the code is no success") {
  JobEnd end;
  CHECK(end.cut_off("no leader") == Action::kill);
  CHECK(end.cut_off("no leader") == Action::nothing);
  CHECK(end.is_ending());
  CHECK(end.is_cut_off());
  CHECK(end.is_killed());
  CHECK(end.cause()->message == "no leader");
  CHECK(end.code(kGood, kMax) == 1);

  JobEnd ending;
  ending.ordered({"theirs", 7, 1});
  CHECK(ending.cut_off("no leader") == Action::kill);
  CHECK(ending.cause()->message == "theirs");
  CHECK(ending.code(kGood, kMax) == 7);
}

TEST_CASE("a shell that has left as planned exits with 0, and waits for nothing") {
  JobEnd end;
  end.left();
  CHECK(end.is_killed());
  CHECK_FALSE(end.is_ending());
  const Outcomes failed = outcomes_of({Record::of(WaitStatus::exited(3))});
  CHECK(end.code(failed, kMax) == 0);
  CHECK(end.cut_off("gone") == Action::nothing);
  CHECK(end.code(failed, kMax) == 0);
}

TEST_CASE("once the leader has decided, nothing changes the code, and nothing more is to be done") {
  JobEnd end;
  end.agreed(5);
  CHECK(end.is_agreed());
  end.agreed(6);
  CHECK(end.raised({"late", 9, 0}) == Action::nothing);
  CHECK(end.ordered({"late", 9, 0}) == Action::nothing);
  CHECK(end.cut_off("late") == Action::nothing);
  CHECK(end.signalled(SIGTERM, 0, Work::running) == Action::nothing);
  CHECK(end.signalled(SIGINT, 0, Work::over) == Action::nothing);
  CHECK(end.code(kGood, kMax) == 5);
}

// ---- all shells of a job, events in random orders ------------------------------------------------

namespace {

// Failures of some shells, put in order by the leader, and delivered to each shell at its own pace.
struct Shells {
  explicit Shells(std::size_t size) : ends(size), seen(size), actions(size) {}

  void do_action(std::size_t shell, Action action) {
    if (action == Action::end || action == Action::kill) ++actions[shell];
  }
  void fail(std::size_t shell, std::optional<int> code) {
    Cause cause{"failure " + std::to_string(order.size()), code, static_cast<std::uint32_t>(shell)};
    Action action = ends[shell].raised(cause);
    do_action(shell, action);
    if (action == Action::end) order.push_back(cause);
  }
  void signal(std::size_t shell, int signum, double now, Work work) {
    Action action = ends[shell].signalled(signum, now, work);
    if (action != Action::end) return;
    Cause cause = ended_by_signal(signum, static_cast<std::uint32_t>(shell));
    do_action(shell, ends[shell].raised(cause));
    order.push_back(cause);
  }
  bool deliver(std::size_t shell) {
    if (seen[shell] == order.size()) return false;
    do_action(shell, ends[shell].ordered(order[seen[shell]++]));
    return true;
  }

  std::vector<JobEnd> ends;
  std::vector<std::size_t> seen;
  std::vector<int> actions;
  std::vector<Cause> order;
};

}  // namespace

TEST_CASE("in any order of events all shells end once, agree on one cause, and have one code") {
  std::mt19937 random(20261123);
  for (int round = 0; round < 2000; ++round) {
    INFO("round " << round);
    std::size_t size = 1 + random() % 6;
    Shells shells(size);
    double now = 0;
    for (int step = 0; step < 30; ++step) {
      std::size_t shell = random() % size;
      now += 0.5;
      switch (random() % 8) {
        case 0: shells.fail(shell, std::nullopt); break;
        case 1: shells.fail(shell, static_cast<int>(random() % 600)); break;
        case 2: shells.signal(shell, SIGTERM, now, static_cast<Work>(random() % 4)); break;
        case 3: shells.signal(shell, SIGINT, now, static_cast<Work>(random() % 4)); break;
        default: shells.deliver(shell);
      }
    }
    for (std::size_t shell = 0; shell < size; ++shell) {
      while (shells.deliver(shell)) {
      }
      REQUIRE(shells.ends[shell].is_ending() == !shells.order.empty());
      REQUIRE(shells.ends[shell].cause() == shells.ends[0].cause());
      REQUIRE(shells.ends[shell].code(kGood, kMax) == shells.ends[0].code(kGood, kMax));
      REQUIRE((shells.ends[shell].code(kGood, kMax) > 0) == !shells.order.empty());
      REQUIRE(shells.actions[shell] == (shells.order.empty() ? 0 : 1));
    }
    if (!shells.order.empty()) REQUIRE(shells.ends[0].cause() == shells.order[0]);
    int code = shells.ends[0].code(kGood, kMax);
    for (JobEnd& each : shells.ends) {
      each.agreed(code);
      REQUIRE(each.code(kNone, kMax) == code);
    }
  }
}

TEST_CASE("of a job that is over its time the policy decides, and what still ran counts as 124") {
  auto code = [](Policy::Kind kind, std::initializer_list<Record> ends) {
    Cause cause{"timeout", std::nullopt, 0};
    cause.over_time = true;
    JobEnd end;
    CHECK(end.raised(cause) == Action::end);
    CHECK(end.ordered(cause) == Action::nothing);
    return end.code(outcomes_of(ends), Policy(kind, 0, {}));
  };
  Record late = Record::over_time(WaitStatus::exited(0));
  for (auto kind : {Policy::Kind::max, Policy::Kind::main, Policy::Kind::main_and_all, Policy::Kind::first})
    CHECK(code(kind, {late, late}) == 124);
  CHECK(code(Policy::Kind::all, {late, late}) == 1);
  CHECK(code(Policy::Kind::main, {Record::of(WaitStatus::exited(0)), late}) == 0);
}

TEST_CASE("by the policy `first` the code is of what has failed first by evidence, if that is known") {
  const Policy first(Policy::Kind::first, 0, {});
  Outcomes ends = outcomes_of({Record::of(WaitStatus::exited(3)), Record::of(WaitStatus::exited(9))});
  JobEnd end;
  CHECK(end.code(ends, first) == 3);
  end.set_first({1, Record::of(WaitStatus::exited(9))});
  CHECK(end.code(ends, first) == 9);
  CHECK(end.code(ends, kMax) == 9);
  end.set_first({0, Record::of(WaitStatus::exited(0))});  // the policy does not count this as a failure
  CHECK(end.code(ends, first) == 3);
}

TEST_CASE("the class of a failure chooses the code, where there is one for it") {
  Policy policy;
  policy.set_classes(ExitClasses::parse("host:75,no-progress:93").value());
  auto ended = [&](const std::optional<Cause>& cause, std::initializer_list<Record> records) {
    JobEnd end;
    if (cause) {
      static_cast<void>(end.raised(*cause));
      static_cast<void>(end.ordered(*cause));
    }
    Outcomes outcomes;
    nacre::value::Idset::Id rank = 0;
    for (const Record& each : records) {
      outcomes.add(nacre::value::Idset::range(rank, rank), each);
      ++rank;
    }
    return end.code(outcomes, policy);
  };
  const Record good = Record::of(WaitStatus::exited(0)), seven = Record::of(WaitStatus::exited(7));
  const Record victim = Record::victim(WaitStatus::killed(SIGTERM));
  CHECK(ended({}, {good, good}) == 0);
  CHECK(ended({}, {good, seven}) == 7);
  CHECK(ended({}, {good, Record::lost()}) == 75);  // the job went on without them
  Cause lost{"shell 1 is lost", std::nullopt, 0};
  lost.failure = class_of_type("node-failure");
  CHECK(ended(lost, {Record::lost(), victim}) == 75);
  Cause late{"timeout", std::nullopt, 0, {}, true, class_of_type("timeout")};
  CHECK(ended(late, {Record::over_time(WaitStatus::killed(SIGTERM)), good}) == 93);
  CHECK(ended(Cause{"hang", 93, 0, {}, false, class_of_type("hang-watch")}, {victim, victim}) == 93);
  Cause idle{"restart: in vain", std::nullopt, 0, TaskEnd{0, seven}, false, class_of_type("no-progress")};
  CHECK(ended(idle, {seven, victim}) == 93);
  CHECK(ended(ended_by_signal(SIGTERM, 0), {victim, victim}) == 143);  // no task has failed
  CHECK(ended(Cause{"exit-on-error", std::nullopt, 0, TaskEnd{0, seven}}, {seven, Record::lost()}) == 7);
  policy.set_classes(ExitClasses::parse("user:3").value());
  CHECK(ended({}, {good, seven}) == 3);
  CHECK(ended(idle, {seven, victim}) == 7);  // the class has no code in this policy
  CHECK(ended(lost, {Record::lost(), victim}) == 1);
}

using namespace nacre;
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
