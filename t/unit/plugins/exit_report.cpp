// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "catch.hpp"

#include "fake_host.hpp"
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

  // As the leader's shell calls it.
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
