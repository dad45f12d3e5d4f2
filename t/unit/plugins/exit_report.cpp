// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "base/file.hpp"
#include "event/clock.hpp"
#include "exits/job_end.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "job_of_nodes.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using value::WaitStatus;
using Lines = std::vector<std::string>;

namespace {

struct Report {
  explicit Report(const Json& option = nullptr, std::uint32_t tasks = 4) : host(tasks) { init(option); }
  Report(std::string_view jobspec, std::string_view resources) : host(jobspec, resources) { init(nullptr); }

  void init(const Json& option) {
    host.stack().push(plugins::make_exit_report(host));
    host.start_tasks();
    if (!option.is_null()) host.options().set("exit-report", option);
    REQUIRE(host.call("shell.init"));
  }

  // Reports an end as the leader's shell does.
  void ended(const std::string& ranks, const std::string& record) {
    plugin::Call call("job.tasks-exited");
    call.in.update({{"ranks", ranks}, {"record", record}});
    REQUIRE(host.stack().call(call));
  }

  Lines at_the_end() {
    REQUIRE(host.call("shell.exit"));
    return host.logged;
  }

  kit::FakeHost host;
};

}  // namespace

TEST_CASE("tasks that fail alike within a moment are named in one line") {
  Report report(nullptr, 10);
  report.ended("3", "x3");
  report.ended("7-9", "x3");
  report.ended("0,2", "x0");
  report.ended("1", "s11+");
  CHECK(report.host.logged.empty());
  REQUIRE(report.host.run_loop());
  CHECK(report.host.logged == Lines{"error : task 1 on fake0: killed by SIGSEGV (core dumped)",
                                    "error : task 3, 7-9 on fake0: exit code 3"});
  report.ended("4", "x3");
  REQUIRE(report.host.run_loop());
  CHECK(report.host.logged.back() == "error : task 4 on fake0: exit code 3");
  CHECK(report.at_the_end().size() == 3);
}

TEST_CASE("the first failure is named before the next ones would be gathered, and those for longer") {
  Report report;
  std::vector<std::size_t> lines;
  auto look = [&] { lines.push_back(report.host.logged.size()); };
  auto named = event::Timer::create(report.host.loop(), look);
  REQUIRE(named);
  report.ended("1", "x3");
  named->start(event::Seconds(0.1));
  REQUIRE(report.host.run_loop());
  report.ended("2", "x3");
  named->start(event::Seconds(0.1));
  REQUIRE(report.host.run_loop());
  CHECK(lines == std::vector<std::size_t>{1, 1});
  CHECK(report.host.logged.size() == 2);
}

TEST_CASE("what fails as the job ends is named at its end") {
  Report report;
  report.ended("2", "s9");
  CHECK(report.at_the_end() == Lines{"error : task 2 on fake0: killed by SIGKILL"});
}

TEST_CASE("victims, lost tasks, and those that could not be started and end the job are not named") {
  Report report;
  report.host.cause = exits::TaskEnd{1, exits::Record::not_started(127)};
  report.ended("0", "c/s15");
  report.ended("1,4", "f127");
  report.ended("2", "l");
  report.ended("3", "c");
  CHECK(report.at_the_end().empty());
}

TEST_CASE("tasks that could not be started are named where the job goes on without them, or has another cause") {
  Report report(nullptr, 8);
  report.ended("1-2,5", "f127");
  report.ended("3", "f126");
  report.ended("4", "x127");
  REQUIRE(report.host.run_loop());
  CHECK(report.host.logged == Lines{"error : task 3 on fake0: not started: not executable",
                                    "error : task 1-2, 5 on fake0: not started: no such command",
                                    "error : task 4 on fake0: exit code 127"});
  report.host.cause = exits::TaskEnd{0, exits::Record::of(WaitStatus::exited(3))};
  report.ended("6", "f127");
  CHECK(report.at_the_end().back() == "error : task 6 on fake0: not started: no such command");
}

TEST_CASE("the task that has ended the job is named by the message that says so") {
  Report report;
  report.ended("1-2", "x3");
  report.host.cause = exits::TaskEnd{1, exits::Record::of(WaitStatus::exited(3))};
  CHECK(report.at_the_end() == Lines{"error : task 2 on fake0: exit code 3"});
}

TEST_CASE("tasks that are ended by a signal to all tasks are not named") {
  Report report;
  report.host.kill_tasks(SIGINT);
  report.ended("0", "s2");
  report.ended("1", "s15");
  report.ended("2", "x2");
  CHECK(report.at_the_end() ==
        Lines{"error : task 1 on fake0: killed by SIGTERM", "error : task 2 on fake0: exit code 2"});
}

TEST_CASE("a code that counts as success is not named") {
  Report report;
  report.host.policy = exits::Policy(exits::Policy::Kind::max, 0, value::Idset::range(77, 77));
  report.ended("1", "x77");
  CHECK(report.at_the_end().empty());
}

TEST_CASE("with exit-report=off nothing is named") {
  for (const Json& option : {Json(false), Json(0), Json("0"), Json("off")}) {
    Report report(option);
    report.ended("1", "x3");
    CHECK(report.at_the_end().empty());
  }
}

TEST_CASE("tasks are named with their nodes, and without where these are many") {
  auto job = [](int nodes) {
    return std::pair(R"({"version":1,"resources":[{"type":"slot","count":)" + std::to_string(2 * nodes) +
                         R"(,"label":"task","with":[{"type":"core","count":1}]}],
            "tasks":[{"command":["true"],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0}}})",
                     R"({"version":1,"execution":{"R_lite":[{"rank":"0-)" + std::to_string(nodes - 1) +
                         R"(","children":{"core":"0-1"}}],"starttime":0,"expiration":0,"nodelist":["n[0-)" +
                         std::to_string(nodes - 1) + R"(]"]}})");
  };
  {
    auto [jobspec, resources] = job(4);
    Report report(jobspec, resources);
    report.ended("1,4-6", "x9");
    CHECK(report.at_the_end() == Lines{"error : task 1 on n0, 4-5 on n2, 6 on n3: exit code 9"});
  }
  {
    auto [jobspec, resources] = job(40);
    Report report(jobspec, resources);
    report.ended("0-70", "x9");
    report.ended("72,74,76,78", "x1");
    CHECK(report.at_the_end() == Lines{"error : task 72 on n36, 74 on n37, 76 on n38, 78 on n39: exit code 1",
                                       "error : task 0-70: exit code 9"});
  }
}

TEST_CASE("a host of several shells is named once") {
  Report report(kit::jobspec_of(4),
                R"({"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0"}}],
                  "starttime":0,"expiration":0,"nodelist":["a,b,a,b"]}})");
  report.ended("0-2", "x9");
  CHECK(report.at_the_end() == Lines{"error : task 0, 2 on a, 1 on b: exit code 9"});
}

TEST_CASE("of very many failures the lines stay few and short") {
  Report report(nullptr, 512);
  for (int code = 1; code < 200; ++code) report.ended(std::to_string(code), "x" + std::to_string(code));
  std::string every_second = "200";
  for (int rank = 202; rank < 512; rank += 2) every_second += "," + std::to_string(rank);
  report.ended(every_second, "s6");
  Lines lines = report.at_the_end();
  REQUIRE(lines.size() == 17);
  CHECK(lines[0].substr(0, 30) == "error : task 200, 202, 204, 20");
  CHECK(lines[0].find(", 230, ... (156 tasks) on fake0: killed by SIGABRT") != std::string::npos);
  CHECK(lines.back() == "error : 184 more tasks have failed in other ways");
}

TEST_CASE("exit-report is a switch") {
  kit::FakeHost host;
  host.stack().push(plugins::make_exit_report(host));
  host.options().set("exit-report", Json::array());
  CHECK_FALSE(host.call("shell.init"));
}

// The plugin exit-report: what it gathers for the failure report.

namespace {

// The leader's shell, with two tasks on each node.
struct Leader {
  explicit Leader(std::uint32_t nodes = 3)
      : host(kit::jobspec_of(nodes, 2, {"true"}, Json::object()), kit::resources_of(nodes, 2)) {
    host.stack().push(plugins::make_exit_report(host));
    host.options().set("exit-report", "off");
    host.options().set("report", folder.path("report.json"));
    heard = host.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == "exit-report.ask") asked.emplace_back(bytes);
    });
    host.start_tasks();
    REQUIRE(host.call("shell.init"));
  }

  void ended(const std::string& ranks, const std::string& record) {
    plugin::Call call("job.tasks-exited");
    call.in.update({{"ranks", ranks}, {"record", record}});
    REQUIRE(host.stack().call(call));
    outcomes.add(*value::Idset::parse(ranks), *exits::Record::parse(record));
  }
  void lost(int shell) {
    plugin::Call call("shell.lost");
    call.in.update({{"shell_rank", shell}, {"severity", 0}});
    REQUIRE(host.stack().call(call));
  }
  void answer(int rank, const std::string& text) {
    host.announced("exit-report.facts", Json{{"rank", rank}, {"pid", 100 + rank}, {"stderr", text}}.dump());
  }
  Json report(int code) {
    host.ended(exits::summary(end, outcomes, exits::Policy::max(), code));
    return parse_json(read_file(folder.path("report.json")).value()).value();
  }

  kit::TemporaryFolder folder;
  kit::FakeHost host;
  plugin::Registration heard;
  Lines asked;
  exits::JobEnd end;
  exits::Outcomes outcomes;
};

}  // namespace

TEST_CASE("the first that fails, and one of each other way to fail, are asked for what they were") {
  Leader leader;
  leader.ended("0", "x0");
  leader.ended("4-5", "x3");
  leader.ended("3", "x3");
  leader.ended("2", "s11+");
  leader.ended("1", "c/s15");
  CHECK(leader.asked == Lines{"4", "2"});
  leader.answer(4, "why\nit failed\n");
  leader.answer(2, "crash\n");
  leader.answer(3, "nobody has asked\n");
  REQUIRE(leader.host.call("shell.tasks-complete"));
  CHECK(leader.host.holds.empty());
  Json report = leader.report(139);
  CHECK(report["exit"] == Json{{"code", 139}, {"policy", "max"}, {"main", 0}, {"by", "task 2"}});
  CHECK(report["cause"]["rank"] == 2);  // only task 2 has crashed, at about the same time
  CHECK(report["cause"]["pid"] == 102);
  CHECK(report["cause"]["host"] == "node1");
  CHECK(report["cause"]["shell"] == 1);
  CHECK(report["cause"]["kind"] == "s");
  CHECK(report["cause"]["value"] == 11);
  CHECK(report["cause"]["origin"] == "own");
  CHECK(report["cause"]["certain"] == false);
  CHECK(report["cause"]["after"] == "3-5");
  CHECK(report["others"].size() == 1);
  CHECK(report["others"][0]["rank"] == 4);
  CHECK(report["others"][0]["stderr"] == "why\nit failed\n");
  CHECK(report["classes"] == Json{{{"record", "c/s15"}, {"ranks", "1"}},
                                  {{"record", "s11+"}, {"ranks", "2"}, {"last", "crash"}},
                                  {{"record", "x0"}, {"ranks", "0"}},
                                  {{"record", "x3"}, {"ranks", "3-5"}, {"last", "it failed"}}});
  CHECK(report["timeline"].size() == 3);
  CHECK(report["timeline"][0]["ranks"] == "4-5");
}

TEST_CASE("an answer that does not come is waited for, for a moment, and not from a shell that is lost") {
  Leader leader;
  leader.ended("4", "x3");
  leader.ended("2", "x4");
  REQUIRE(leader.host.call("shell.tasks-complete"));
  CHECK(leader.host.holds == std::map<std::string, int>{{"exit-report", 1}});
  leader.lost(2);
  CHECK(leader.host.holds.size() == 1);
  SECTION("it comes") {
    leader.answer(2, "");
    CHECK(leader.host.holds.empty());
  }
  SECTION("it never comes") {
    REQUIRE(leader.host.run_loop());
    CHECK(leader.host.holds.empty());
  }
  Json report = leader.report(4);
  CHECK(report["cause"]["rank"] == 2);  // of the tasks of one instant the lowest rank
  CHECK(report["cause"]["host"] == "node1");
  CHECK(report["timeline"][2]["event"] == "lost");
}

TEST_CASE("the task that has ended the job is the cause, whichever was reported first") {
  Leader leader;
  leader.ended("5", "x1");
  leader.end.ordered({"task 3 has failed", std::nullopt, 1, exits::TaskEnd{3, *exits::Record::parse("x3")}});
  leader.host.cause = leader.end.cause()->task;
  REQUIRE(leader.host.call("shell.tasks-complete"));
  CHECK(leader.asked == Lines{"5", "3"});
  Json cause = leader.report(3)["cause"];
  CHECK(cause["rank"] == 3);
  CHECK(cause["host"] == "node1");
  CHECK(cause["message"] == "task 3 has failed");
}

TEST_CASE("only what failed at about the same time makes the cause uncertain") {
  Leader leader;
  leader.ended("5", "x1");
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  leader.ended("3", "x3");
  Json cause = leader.report(3)["cause"];
  CHECK(cause["rank"] == 5);
  CHECK(cause["certain"] == true);
  CHECK_FALSE(cause.contains("after"));
}

TEST_CASE("of very many ways to fail a few tasks are asked") {
  Leader leader(40);
  for (int rank = 0; rank < 80; ++rank) leader.ended(std::to_string(rank), "x" + std::to_string(rank + 1));
  CHECK(leader.asked.size() == 8);
  CHECK(leader.report(80)["classes"].size() == 80);
}

TEST_CASE("the shells tell why their tasks have failed, and by it one that only lost another is not the cause") {
  Leader leader;
  const std::string clock = event::clock_of_host();
  auto told = [&](int shell, const Json& failures) {
    double now = event::clock_now().count();
    Json part{{"clock", clock}, {"shell", shell}, {"received", now}, {"answered", now}, {"failures", failures}};
    leader.host.gathers_elsewhere[part.dump()] = value::Idset::range(shell, shell);
  };
  leader.ended("2", "x1");
  leader.answer(2, "Connection reset by peer\n");
  leader.ended("4", "x1");
  leader.ended("5", "x7");
  const double at = event::clock_now().count() - 1;
  told(1, {{2, "x1", "peer", at, 1}});
  told(2, {{5, "x7", "own", at - 0.1, 2}, {4, "x1", "peer", at + 0.1, 1}, {4, "x1", "peer"}, 7});
  REQUIRE(leader.host.call("shell.tasks-complete"));
  CHECK(leader.asked.back() == "5");
  leader.answer(5, "it has raised\n");
  CHECK(leader.host.first == exits::TaskEnd{5, *exits::Record::parse("x7")});
  Json cause = leader.report(7)["cause"];
  CHECK(cause["rank"] == 5);
  CHECK(cause["certain"] == true);
  CHECK(cause["origin"] == "own");
  CHECK_FALSE(cause.contains("after"));
}

TEST_CASE("a task that has ended the job as it lost another is not the cause, and a victim that had failed is") {
  Leader leader;
  const double at = event::clock_now().count() - 1;
  Json part{{"clock", event::clock_of_host()},
            {"shell", 1},
            {"failures", {{2, "x1", "peer", at, 1}, {3, "x1", "own", at - 0.02, 2}}}};
  leader.host.gathers_elsewhere[part.dump()] = value::Idset::range(1, 1);
  leader.ended("2", "x1");
  leader.ended("3", "c/x1");
  leader.end.ordered({"task 2 has failed", std::nullopt, 1, exits::TaskEnd{2, *exits::Record::parse("x1")}});
  leader.host.cause = leader.end.cause()->task;
  REQUIRE(leader.host.call("shell.tasks-complete"));
  leader.answer(3, "ValueError\n");
  Json cause = leader.report(1)["cause"];
  CHECK(cause["rank"] == 3);
  CHECK(cause["stderr"] == "ValueError\n");
  CHECK(cause["certain"] == true);
}

TEST_CASE("the reason that last words stand for is in the report, unless it has failed by itself") {
  auto reason_of = [](const std::string& err) {
    Leader leader;
    leader.ended("1", "x3");
    leader.answer(1, err);
    Json cause = leader.report(3)["cause"];
    return cause.value("reason", "none");
  };
  CHECK(reason_of("RuntimeError: CUDA error: device-side assert triggered\n") == "gpu-assert");
  CHECK(reason_of("NCCL WARN Connection closed by remote peer\n") == "peer-closed");
  CHECK(reason_of("Traceback (most recent call last):\n  File \"a\"\nValueError: 3\nNCCL WARN Connection reset by "
                  "peer\n") == "none");
  CHECK(reason_of("no disk\n") == "none");
}

TEST_CASE("a job that hangs has the task that the doctor holds to be why as its cause, without certainty") {
  Leader leader;
  plugin::Call call("doctor.hang");
  call.in.update({{"time", "1s"}, {"found", Json::object()}});
  REQUIRE(leader.host.stack().call(call));
  leader.ended("0-5", "c/s15");
  leader.end.ordered({"hang-watch: rank 3 spins", 124, 0, exits::TaskEnd{3, exits::Record::victim({})}});
  leader.host.cause = leader.end.cause()->task;
  REQUIRE(leader.host.call("shell.tasks-complete"));
  Json cause = leader.report(124)["cause"];
  CHECK(cause["rank"] == 3);
  CHECK(cause["record"] == "c/s15");
  CHECK(cause["certain"] == false);
}

TEST_CASE("of a task that hang-watch has killed, and that did not start again, the cause says why") {
  for (bool again : {false, true}) {
    Leader leader;
    plugin::Call call("doctor.hang");
    call.in.update({{"time", "1s"}, {"found", Json::object()}, {"why", "rank 3 spins"}, {"killed", "3"}});
    REQUIRE(leader.host.stack().call(call));
    if (again) REQUIRE(leader.host.call("job.tasks-restart"));
    leader.ended("3", "s9");
    leader.host.cause = exits::TaskEnd{3, *exits::Record::parse("s9")};
    REQUIRE(leader.host.call("shell.tasks-complete"));
    CHECK(leader.report(137)["cause"].value("hang", "") == (again ? "" : "rank 3 spins"));
  }
}

TEST_CASE("a task that looks like a victim is no certain cause") {
  for (auto [record, certain] :
       {std::pair{"s11", true}, {"s6", false}, {"s13", false}, {"x6", true}, {"l", true}}) {
    Leader leader;
    leader.ended("2", record);
    CHECK(leader.report(1)["cause"]["certain"] == certain);
  }
}

TEST_CASE("victims, and what a signal to all tasks has ended, have no cause") {
  Leader leader;
  leader.host.kill_tasks(SIGINT);
  leader.ended("0", "c/s15");
  leader.ended("1-5", "s2");
  CHECK(leader.asked.empty());
  CHECK(leader.report(130)["cause"] == Json::object());
}

TEST_CASE("what is no answer is passed over") {
  Leader leader;
  leader.ended("2", "x3");
  for (const char* text : {"", "{", "[]", "7", R"({"rank": "2"})", R"({"rank": -2})"})
    leader.host.announced("exit-report.facts", text);
  CHECK_FALSE(leader.report(3)["cause"].contains("pid"));
  leader.host.announced("exit-report.facts", R"({"rank": 2, "stderr": 7, "host": [], "pid": "none"})");
  Json cause = leader.report(3)["cause"];
  CHECK_FALSE(cause.contains("stderr"));
  CHECK(cause["host"] == "node1");
}

TEST_CASE("a shell answers for its own tasks") {
  kit::FakeHost host(2);
  host.stack().push(plugins::make_exit_report(host));
  Lines facts;
  auto heard = host.on_announcement([&](std::string_view topic, std::string_view bytes) {
    if (topic == "exit-report.facts") facts.emplace_back(bytes);
  });
  host.make_tasks();
  kit::TemporaryFolder folder;
  host.environment().set("NACRE_JOB_TMPDIR", folder.path(""));
  host.options().set("torch", true);
  REQUIRE(host.call("shell.init"));
  for (std::size_t id : {0U, 1U}) REQUIRE(host.call_task("task.init", id));
  CHECK(host.tasks()[1]->command().env.get("NACRE_ERROR_FILE") == folder.path("error.1"));
  CHECK(host.tasks()[1]->command().env.get("TORCHELASTIC_ERROR_FILE") == folder.path("error.1"));
  static_cast<void>(folder.file("error.1", R"({"message": "no such dataset"})"));
  host.tasks()[1]->started(4711);
  REQUIRE(host.call_task("task.fork", 1));
  REQUIRE(host.end_task(1, WaitStatus::exited(3)));
  facts.clear();  // the task has failed alone: the leader has asked already
  host.announced("exit-report.ask", "1,7");
  REQUIRE(facts.size() == 1);
  Json told = parse_json(facts[0]).value();
  CHECK(told["rank"] == 1);
  CHECK(told["pid"] == 4711);
  CHECK(told["host"] == "fake0");
  CHECK(told["error"] == Json{{"message", "no such dataset"}});
  CHECK(told["usage"].contains("maxrss"));
  CHECK(told["started"].get<double>() <= told["ended"].get<double>());
  host.announced("exit-report.ask", "garbage");
  CHECK(facts.size() == 1);
}

namespace {

struct Written final : plugin::TaskOutput {
  value::Idset come_out() override { return {}; }
  void follow(plugin::OutputFollower* /*follower*/) override {}
  void redirect(plugin::OutputFile* /*to*/) override {}
  std::optional<Tail> tail(std::uint32_t rank) override {
    if (!tails.contains(rank)) return std::nullopt;
    return Tail{"", tails[rank], complete.contains(rank)};
  }
  std::map<std::uint32_t, std::string> tails;
  value::Idset complete;
};

}  // namespace

TEST_CASE("tasks that fail with the same last line, and in the same module, are one class") {
  Leader leader(4);
  leader.host.gathers_elsewhere = {
      {R"([["x1", "no disk", "", "2,4"], ["s11+", "", "libx.so", "3"]])", value::Idset::range(1, 1)},
      {R"([["x1", "no disk", "", "5"], ["x1", "other", "", "6"], ["x1", "no disk", "", "0"]])",
       value::Idset::range(2, 2)},
      {R"([["x1", "no disk", ""], ["x1", 7, "", "6"], ["x1", "", "", "6-"], 3, {"x1": 1}])",
       value::Idset::range(3, 3)},
      {"no JSON", value::Idset::range(4, 4)},
  };
  leader.ended("0", "x0");
  leader.ended("2,4-7", "x1");
  leader.ended("1", "c/s15");
  CHECK(leader.host.gathers.empty());
  leader.ended("3", "s11+");
  leader.answer(2, "no disk\n");
  leader.answer(3, "");
  REQUIRE(leader.host.call("shell.tasks-complete"));
  CHECK(leader.host.gathers.contains("exit-report.digests"));
  CHECK(leader.host.holds.empty());
  CHECK(leader.report(139)["classes"] == Json{{{"record", "c/s15"}, {"ranks", "1"}},
                                              {{"record", "s11+"}, {"ranks", "3"}, {"module", "libx.so"}},
                                              {{"record", "x0"}, {"ranks", "0"}},
                                              {{"record", "x1"}, {"ranks", "2,4-5"}, {"last", "no disk"}},
                                              {{"record", "x1"}, {"ranks", "6"}, {"last", "other"}},
                                              {{"record", "x1"}, {"ranks", "7"}}});
}

TEST_CASE("of one task that has failed no shell is asked for more") {
  Leader leader;
  leader.ended("2", "x1");
  leader.ended("0-1,3-5", "c/s15");
  leader.answer(2, "");
  REQUIRE(leader.host.call("shell.tasks-complete"));
  CHECK(leader.host.gathers.empty());
}

TEST_CASE("a shell tells which of its tasks have failed alike, once their output has ended, or some time later") {
  kit::FakeHost host(6);
  Written output;
  host.offer_output(&output);
  host.stack().push(plugins::make_exit_report(host));
  host.start_tasks();
  REQUIRE(host.call("shell.init"));
  for (std::size_t id : {0U, 2U, 3U}) REQUIRE(host.end_task(id, WaitStatus::exited(3)));
  REQUIRE(host.end_task(1, WaitStatus::killed(SIGSEGV)));
  REQUIRE(host.end_task(4, WaitStatus::exited(9)));
  REQUIRE(host.end_task(5, WaitStatus::exited(0)));
  output.tails = {{0, "a\nb\n"}, {1, "b\n"}, {2, "c\nb\n"}, {3, "x"}, {4, "b"}, {5, "b"}};
  output.complete = value::Idset::parse("0-2").value();
  host.announced("exit-report.digests", "s11 x3");
  CHECK(host.gathers.empty());
  SECTION("it ends") { output.complete = value::Idset::parse("0-3").value(); }
  SECTION("it never does") {}
  REQUIRE(host.serve([&] { return !host.gathers.empty(); }));
  CHECK(parse_json(host.gathers["exit-report.digests"]).value() ==
        Json{{"s11", "b", "", "1"}, {"x3", "b", "", "0,2"}, {"x3", "x", "", "3"}});
  host.announced("exit-report.digests", "x9");  // each task is asked once
  CHECK(host.gathers.size() == 1);
  host.offer_output(nullptr);
}

TEST_CASE("of a task that could not be executed no output is waited for") {
  kit::FakeHost host(1);
  Written output;
  host.offer_output(&output);
  host.stack().push(plugins::make_exit_report(host));
  host.make_tasks();
  REQUIRE(host.call("shell.init"));
  int answers = 0;
  auto heard = host.on_announcement([&](std::string_view topic, std::string_view /*bytes*/) {
    if (topic == "exit-report.facts") ++answers;
  });
  output.tails = {{0, ""}};
  host.tasks()[0]->exited(WaitStatus::exited(127), {});
  host.announced("exit-report.ask", "0");
  CHECK(answers == 1);
  host.offer_output(nullptr);
}

TEST_CASE("a plugin adds what it knows of a task, but replaces nothing") {
  kit::FakeHost host(2);
  host.stack().push(plugins::make_exit_report(host));
  auto solver = std::make_unique<plugin::Plugin>("solver");
  solver->on("report.note", [](plugin::Call& call) {
    call.out = {{"solver", {{"step", 100 + call.in["rank"].get<int>()}}},
                {"host", "elsewhere"},
                {"much", std::string(20000, 'x')}};
    return Result<void>();
  });
  host.stack().push(std::move(solver));
  Lines facts;
  auto heard = host.on_announcement([&](std::string_view topic, std::string_view bytes) {
    if (topic == "exit-report.facts") facts.emplace_back(bytes);
  });
  host.start_tasks();
  REQUIRE(host.call("shell.init"));
  REQUIRE(host.end_task(1, WaitStatus::exited(3)));
  host.announced("exit-report.ask", "1");
  REQUIRE(host.serve([&] { return !facts.empty(); }));
  Json told = parse_json(facts.back()).value();
  CHECK(told["solver"] == Json{{"step", 101}});
  CHECK(told["host"] == "fake0");
  CHECK_FALSE(told.contains("much"));
  CHECK(host.logged.front() == "warn exit-report: report.note: much has more than 16384 bytes: it is left out");
}

TEST_CASE("processes that have outlived their tasks are in the report, with their host") {
  Leader leader;
  leader.ended("2", "x1");
  plugin::Call call("shell.processes-left");
  call.in["processes"] = Json::array();
  for (int i = 0; i < 20; ++i) call.in["processes"].push_back({{"pid", 100 + i}, {"name", "sleep"}, {"rank", 1}});
  REQUIRE(leader.host.stack().call(call));
  for (const char* none : {"", "[]", R"({"processes": 7})"}) leader.host.announced("exit-report.left", none);
  leader.host.announced("exit-report.left", R"({"processes": [{"pid": 7}], "more": 2})");
  Json left = leader.report(1)["left"];
  REQUIRE(left["processes"].size() == 17);
  CHECK(left["processes"][0] ==
        Json{{"pid", 100}, {"name", "sleep"}, {"rank", 1}, {"shell", 0}, {"host", "node0"}});
  CHECK(left["processes"][16] == Json{{"pid", 7}});
  CHECK(left["more"] == 6);
}

TEST_CASE("core dumps that stay are in the report") {
  Leader leader;
  leader.ended("2", "s11+");
  leader.host.announced("exit-report.facts", R"({"rank": 2, "host": "node1", "core": {"file": "/tmp/core.7"}})");
  CHECK(leader.report(139)["left"] == Json{{"files", {{{"host", "node1"}, {"rank", 2}, {"file", "/tmp/core.7"}}}}});
  Leader other;
  other.ended("2", "x1");
  CHECK_FALSE(other.report(1).contains("left"));
}
