// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using value::WaitStatus;

namespace {

void init(kit::FakeHost& host, const Json& option) {
  host.stack().push(plugins::make_exit_on_error(host));
  host.start_tasks();
  if (!option.is_null()) host.options().set("exit-on-error", option);
  REQUIRE(host.call("shell.init"));
}

// Four tasks that end in the order of `ends`.
std::vector<plugin::RaisedException> raised(const Json& option, const std::vector<WaitStatus>& ends) {
  kit::FakeHost host;
  init(host, option);
  for (std::size_t task = 0; task < ends.size(); ++task) REQUIRE(host.end_task(task, ends[task]));
  return host.exceptions;
}

// How many of `tasks` tasks fail, one after the other, before the job is ended; none: it is not ended.
std::optional<std::size_t> failures_until_end(const Json& option, std::uint32_t tasks) {
  kit::FakeHost host(tasks);
  init(host, option);
  for (std::size_t task = 0; task < tasks; ++task) {
    REQUIRE(host.end_task(task, WaitStatus::exited(3)));
    if (!host.exceptions.empty()) return task + 1;
  }
  return std::nullopt;
}

std::string option_error(const Json& option) {
  kit::FakeHost host;
  host.stack().push(plugins::make_exit_on_error(host));
  host.options().set("exit-on-error", option);
  Result<int> called = host.call("shell.init");
  REQUIRE_FALSE(called);
  constexpr std::string_view kStart = "plugin 'exit-on-error': shell.init: exit-on-error";
  REQUIRE(called.error().message.starts_with(kStart));
  return called.error().message.substr(kStart.size());
}

// Ends of tasks of other shells, as shell 0 hears of them.
void end_elsewhere(kit::FakeHost& host, std::string_view ranks, std::string_view record) {
  plugin::Call call("job.tasks-exited");
  call.in.update({{"ranks", ranks}, {"record", record}});
  REQUIRE(host.stack().call(call));
}

// What tasks have written to their standard error.
struct LastLines final : plugin::TaskOutput {
  value::Idset come_out() override { return {}; }
  void follow(plugin::OutputFollower* /*follower*/) override {}
  void redirect(plugin::OutputFile* /*to*/) override {}
  std::optional<Tail> tail(std::uint32_t rank) override { return Tail{"", words[rank], true, 0}; }
  std::map<std::uint32_t, std::string> words;
};

}  // namespace

TEST_CASE("a task that has only lost another one waits for what that one did") {
  kit::FakeHost host;
  LastLines output;
  output.words = {{0, "recv: Connection reset by peer\n"}, {1, "write: Broken pipe\n"}};
  host.offer_output(&output);
  init(host, 1);
  REQUIRE(host.end_task(0, WaitStatus::exited(1)));
  REQUIRE(host.end_task(1, WaitStatus::exited(1)));
  CHECK(host.exceptions.empty());
  SECTION("which comes") {
    REQUIRE(host.end_task(2, WaitStatus::killed(SIGSEGV)));
    REQUIRE(host.exceptions.size() == 1);
    CHECK(host.exceptions[0].message.starts_with("task 2 on fake0 killed by SIGSEGV"));
    CHECK(host.exceptions[0].task->rank == 2);
  }
  SECTION("which does not come") {
    REQUIRE(host.serve([&] { return !host.exceptions.empty(); }));
    CHECK(host.exceptions[0].message ==
          "task 0 on fake0 exited with code 1; its last words speak of another, so it may not be the first");
  }
  host.offer_output(nullptr);
}

TEST_CASE("the shell of a task judges it before shell 0 does") {
  kit::FakeHost host(8);
  init(host, 1);
  end_elsewhere(host, "7", "s11");
  CHECK(host.exceptions.empty());
  REQUIRE(host.serve([&] { return !host.exceptions.empty(); }));
  CHECK(host.exceptions[0].message == "task 7 on fake0 killed by SIGSEGV");
}

TEST_CASE("a task that fails ends nothing unless exit-on-error is on") {
  for (const Json& option : {Json(nullptr), Json(0), Json(false), Json("0")}) {
    CHECK(raised(option, {WaitStatus::exited(3)}).empty());
  }
}

TEST_CASE("exit-on-error ends the job when a task fails, with its status, and names it") {
  for (const Json& option : {Json(1), Json(true), Json("1")}) {
    auto exceptions = raised(option, {WaitStatus::exited(3)});
    REQUIRE(exceptions.size() == 1);
    CHECK(exceptions[0].type == "exec");
    CHECK(exceptions[0].severity == 0);
    CHECK(exceptions[0].message == "task 0 on fake0 exited with code 3");
    CHECK(exceptions[0].status == WaitStatus::exited(3));
  }
}

TEST_CASE("a task killed by a signal has failed") {
  auto exceptions = raised(1, {WaitStatus::killed(SIGSEGV)});
  REQUIRE(exceptions.size() == 1);
  CHECK(exceptions[0].message == "task 0 on fake0 killed by SIGSEGV");
  CHECK(exceptions[0].status == WaitStatus::killed(SIGSEGV));
}

TEST_CASE("tasks that a signal to all tasks has ended have not failed by themselves") {
  for (const Json& option : {Json(1), Json(2), Json("first"), Json{{"grace", 5}}}) {
    kit::FakeHost host;
    init(host, option);
    host.signals = {SIGTERM};  // the signal comes from outside
    REQUIRE(host.end_task(0, WaitStatus::killed(SIGTERM)));
    end_elsewhere(host, "1-2", "s15");
    CHECK(host.exceptions.empty());
    CHECK_FALSE(host.next_timer());
  }
  kit::FakeHost host;
  init(host, 1);
  host.signals = {SIGTERM};
  REQUIRE(host.end_task(0, WaitStatus::killed(SIGTERM)));
  REQUIRE(host.end_task(1, WaitStatus::killed(SIGSEGV)));
  REQUIRE(host.exceptions.size() == 1);
  CHECK(host.exceptions[0].message == "task 1 on fake0 killed by SIGSEGV");
}

TEST_CASE("tasks that succeed end nothing") {
  CHECK(raised(1, {WaitStatus::exited(0), WaitStatus::exited(0)}).empty());
  CHECK(raised("first", {WaitStatus::exited(0), WaitStatus::exited(0)}).empty());
}

TEST_CASE("exit-on-error looks at tasks that end later too") {
  auto exceptions = raised(1, {WaitStatus::exited(0), WaitStatus::exited(0), WaitStatus::exited(5)});
  REQUIRE(exceptions.size() == 1);
  CHECK(exceptions[0].message == "task 2 on fake0 exited with code 5");
}

TEST_CASE("exit-on-error=first looks at the first task to end") {
  auto exceptions = raised("first", {WaitStatus::exited(3), WaitStatus::exited(4)});
  REQUIRE(exceptions.size() == 1);
  CHECK(exceptions[0].message == "task 0 on fake0 exited with code 3");
  CHECK(exceptions[0].status == WaitStatus::exited(3));
}

TEST_CASE("exit-on-error=first ends nothing if the first task to end succeeded") {
  CHECK(raised("first", {WaitStatus::exited(0), WaitStatus::exited(3)}).empty());
}

TEST_CASE("a task of a node without a name is named alone") {
  kit::FakeHost host(
      R"({"version":1,"resources":[{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1}]}],
        "tasks":[{"command":["true"],"slot":"task","count":{"per_slot":1}}],
        "attributes":{"system":{"duration":0}}})",
      R"({"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"starttime":0,"expiration":0}})");
  init(host, 1);
  REQUIRE(host.end_task(0, WaitStatus::exited(1)));
  REQUIRE(host.exceptions.size() == 1);
  CHECK(host.exceptions[0].message == "task 0 exited with code 1");
}

TEST_CASE("so many failures end the job, or such a share of the tasks, rounded up") {
  CHECK(failures_until_end(2, 8) == 2);
  CHECK(failures_until_end("3", 8) == 3);
  CHECK(failures_until_end(8, 8) == 8);
  CHECK(failures_until_end(9, 8) == std::nullopt);
  CHECK(failures_until_end("25%", 8) == 2);
  CHECK(failures_until_end("26%", 8) == 3);
  CHECK(failures_until_end("0.1%", 8) == 1);
  CHECK(failures_until_end("100%", 8) == 8);
  CHECK(failures_until_end("7%", 100) == 7);
  CHECK(failures_until_end(Json{{"when", "25%"}}, 8) == 2);
  CHECK(failures_until_end(Json{{"when", 2}}, 8) == 2);
  CHECK(failures_until_end(Json::object(), 8) == 1);
  CHECK(failures_until_end(Json{{"when", false}}, 8) == std::nullopt);
}

TEST_CASE("of several failures the message names all, and the last one with its status") {
  kit::FakeHost host(8);
  init(host, 3);
  end_elsewhere(host, "4-5", "x3");
  end_elsewhere(host, "0-1", "x0");
  CHECK(host.exceptions.empty());
  end_elsewhere(host, "7", "s11");
  end_elsewhere(host, "6", "x1");
  REQUIRE(host.exceptions.size() == 1);
  CHECK(host.exceptions[0].message ==
        "exit-on-error: 3 of 8 tasks have failed (4-5,7): task 7 on fake0 killed by SIGSEGV");
  CHECK(host.exceptions[0].task == exits::TaskEnd{7, exits::Record::of(WaitStatus::killed(SIGSEGV))});
}

TEST_CASE("victims, lost tasks and those that could not be started do not count") {
  kit::FakeHost host(8);
  init(host, 2);
  for (const char* record : {"c/s15", "c", "t/s15", "l", "f127"}) end_elsewhere(host, "0-3", record);
  CHECK(host.exceptions.empty());
}

TEST_CASE("only failures of `ranks`, and with `codes`, count") {
  CHECK(failures_until_end(Json{{"ranks", "2-3"}}, 8) == 3);
  CHECK(failures_until_end(Json{{"ranks", "2-7"}, {"when", 2}}, 8) == 4);
  CHECK(failures_until_end(Json{{"codes", "4-9"}}, 8) == std::nullopt);
  CHECK(failures_until_end(Json{{"codes", 3}}, 8) == 1);
  CHECK(failures_until_end(Json{{"codes", Json::array({1, 3})}, {"ranks", "all"}}, 8) == 1);
  Json segv{{"codes", "134,139"}};
  CHECK(raised(segv, {WaitStatus::exited(1), WaitStatus::killed(SIGTERM)}).empty());
  CHECK(raised(segv, {WaitStatus::exited(1), WaitStatus::killed(SIGSEGV)}).size() == 1);
}

TEST_CASE("`ranks` are of the job: others would never fail") {
  CHECK(option_error({{"ranks", 4}}) == ".ranks: the job has no task 4; it has 0-3");
  CHECK(option_error({{"ranks", "3-4"}}) == ".ranks: the job has no task 4; it has 0-3");
  CHECK(option_error({{"ranks", ""}}) == ".ranks: expected at least one rank, got \"\"");
}

TEST_CASE("with `first` the first of `ranks` to end decides") {
  Json option{{"when", "first"}, {"ranks", "1-3"}};
  CHECK(raised(option, {WaitStatus::exited(0), WaitStatus::exited(3)}).size() == 1);
  CHECK(raised(option, {WaitStatus::exited(3), WaitStatus::exited(0), WaitStatus::exited(3)}).empty());
}

TEST_CASE("after `grace` the job ends, unless its tasks have") {
  kit::FakeHost host;
  init(host, Json{{"grace", "10ms"}});
  REQUIRE(host.end_task(1, WaitStatus::exited(3)));
  CHECK(host.exceptions.empty());
  CHECK(host.logged.back() == "warn exit-on-error: task 1 on fake0 exited with code 3; the job ends in 10ms");
  REQUIRE(host.end_task(2, WaitStatus::exited(4)));  // no second grace, and no second line
  CHECK(host.logged.size() == 1);
  REQUIRE(host.run_loop());
  REQUIRE(host.exceptions.size() == 1);
  CHECK(host.exceptions[0].task == exits::TaskEnd{1, exits::Record::of(WaitStatus::exited(3))});

  kit::FakeHost done;
  init(done, Json{{"grace", "1h"}});
  REQUIRE(done.end_task(1, WaitStatus::exited(3)));
  CHECK(done.next_timer());
  REQUIRE(done.call("shell.tasks-complete"));
  CHECK_FALSE(done.next_timer());
  CHECK(done.exceptions.empty());
}

TEST_CASE("then=note tells once, and the job goes on") {
  auto exceptions = raised(Json{{"then", "note"}, {"when", 2}},
                           {WaitStatus::exited(3), WaitStatus::exited(3), WaitStatus::exited(3)});
  REQUIRE(exceptions.size() == 1);
  CHECK(exceptions[0].severity == 2);
  CHECK(exceptions[0].message ==
        "exit-on-error: 2 of 4 tasks have failed (0-1): task 1 on fake0 exited with code 3; the job goes on");
  CHECK(raised(Json{{"then", "end"}}, {WaitStatus::exited(3)}).front().severity == 0);
}

TEST_CASE("a value alone, and members, are both there in any order") {
  for (bool value_first : {true, false}) {
    kit::FakeHost host(8);
    if (value_first) host.options().set("exit-on-error", 2);
    host.options().set("exit-on-error.ranks", "4-7");
    if (!value_first) host.options().set("exit-on-error", 2);
    init(host, nullptr);
    for (std::size_t task = 0; task < 5; ++task) REQUIRE(host.end_task(task, WaitStatus::exited(3)));
    CHECK(host.exceptions.empty());
    REQUIRE(host.end_task(5, WaitStatus::exited(3)));
    CHECK(host.exceptions.size() == 1);
  }
}

TEST_CASE("what exit-on-error does not take is named, with what was expected") {
  constexpr std::string_view kExpected =
      ": expected on or off, a number of tasks, a share of the job's such as \"25%\", or \"first\", got ";
  for (const char* value :
       {"\"last\"", "null", "-1", "1.5", "\"0%\"", "\"101%\"", "\"%\"", "\"5 %\"", "\"-5%\"", "\"0x10%\""}) {
    CHECK(option_error(Json::parse(value)) == std::string(kExpected) + value);
    CHECK(option_error(Json{{"when", Json::parse(value)}}) == "." + ("when" + std::string(kExpected)) + value);
  }
  CHECK(option_error(Json::array()) == std::string(kExpected) + "an array");
  CHECK(option_error(Json{{"codes", 0}}) == ".codes: expected exit codes, 1 to 255, as 77 or 64-78,99, got 0");
  CHECK(option_error(Json{{"codes", "256"}}) ==
        ".codes: expected exit codes, 1 to 255, as 77 or 64-78,99, got \"256\"");
  CHECK(option_error(Json{{"grace", "soon"}}).starts_with(".grace: "));
  CHECK(option_error(Json{{"grace", "infinity"}}).starts_with(".grace: expected a time"));
  CHECK(option_error(Json{{"then", "stop"}}) == ".then: expected end or note, got \"stop\"");
  CHECK(option_error(Json{{"ranks", "x"}}).starts_with(".ranks: "));
  CHECK(option_error(Json{{"after", 1}}) == ".after: unknown key; known: when, ranks, codes, grace, then");
}
