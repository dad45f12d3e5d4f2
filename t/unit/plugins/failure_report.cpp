// SPDX-License-Identifier: Apache-2.0
//
// The plugin exit-report: what it gathers for the failure report.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include <catch2/catch.hpp>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/unique_fd.hpp"
#include "exits/summary.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "job_of_nodes.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using value::WaitStatus;
using Lines = std::vector<std::string>;

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

  kit::Folder folder;
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
  CHECK(report["cause"]["rank"] == 4);
  CHECK(report["cause"]["pid"] == 104);
  CHECK(report["cause"]["host"] == "node2");
  CHECK(report["cause"]["shell"] == 2);
  CHECK(report["cause"]["kind"] == "x");
  CHECK(report["cause"]["value"] == 3);
  CHECK(report["cause"]["certain"] == false);
  CHECK(report["cause"]["after"] == "2-3,5");
  CHECK(report["others"].size() == 1);
  CHECK(report["others"][0]["rank"] == 2);
  CHECK(report["others"][0]["stderr"] == "crash\n");
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
  CHECK(report["cause"]["rank"] == 4);
  CHECK(report["cause"]["host"] == "node2");
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
  std::this_thread::sleep_for(std::chrono::milliseconds(70));
  leader.ended("3", "x3");
  leader.end.ordered({"2 tasks have failed", std::nullopt, 1, exits::TaskEnd{3, *exits::Record::parse("x3")}});
  leader.host.cause = leader.end.cause()->task;
  Json cause = leader.report(3)["cause"];
  CHECK(cause["rank"] == 3);
  CHECK(cause["certain"] == true);
  CHECK_FALSE(cause.contains("after"));
}

TEST_CASE("of very many ways to fail a few tasks are asked") {
  Leader leader(40);
  for (int rank = 0; rank < 80; ++rank) leader.ended(std::to_string(rank), "x" + std::to_string(rank + 1));
  CHECK(leader.asked.size() == 8);
  CHECK(leader.report(80)["classes"].size() == 80);
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
  kit::Folder folder;
  host.environment().set("NACRE_JOB_TMPDIR", folder.path(""));
  host.options().set("torch", true);
  REQUIRE(host.call("shell.init"));
  for (std::size_t id : {0U, 1U}) REQUIRE(host.call_task("task.init", id));
  CHECK(host.tasks()[1]->command().env.get("NACRE_ERROR_FILE") == folder.path("/error.1"));
  CHECK(host.tasks()[1]->command().env.get("TORCHELASTIC_ERROR_FILE") == folder.path("/error.1"));
  static_cast<void>(folder.file("error.1", R"({"message": "no such dataset"})"));
  host.tasks()[1]->started(4711);
  REQUIRE(host.call_task("task.fork", 1));
  REQUIRE(host.end_task(1, WaitStatus::exited(3)));
  facts.clear();  // it has failed alone: the leader has asked already
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

TEST_CASE("a report that cannot be written is a warning, and what was there stays") {
  kit::FakeHost host(1);
  host.stack().push(plugins::make_exit_report(host));
  host.options().set("report", "/no/such/directory/report.json");
  REQUIRE(host.call("shell.init"));
  host.ended(exits::summary({}, {}, exits::Policy::max(), 0));
  CHECK(host.logged ==
        Lines{"warn exit-report: report: /no/such/directory/report.json: No such file or directory: the "
              "report is not written"});
}

TEST_CASE("a report to a descriptor is read by who is slow, and held for that") {
  Pipe pipe = *make_pipe(O_CLOEXEC);
  kit::FakeHost host(1);
  host.stack().push(plugins::make_exit_report(host));
  host.options().set("report", pipe.write.release());
  REQUIRE(host.call("shell.init"));
  exits::Outcomes outcomes;
  for (std::uint32_t rank = 0; rank < 20000; ++rank)
    outcomes.add(value::Idset::range(2 * rank, 2 * rank),
                 *exits::Record::parse("x" + std::to_string(1 + rank % 200)));
  host.ended(exits::summary({}, outcomes, exits::Policy::max(), 200));
  CHECK(host.holds == std::map<std::string, int>{{"report", 1}});
  std::string text;
  char bytes[4096];
  auto read_some = [&] {
    ssize_t got = ::read(pipe.read.get(), bytes, sizeof bytes);
    if (got > 0) text.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  };
  REQUIRE(::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) == 0);
  REQUIRE(host.serve([&] { return !read_some() && host.holds.empty(); }));
  while (read_some()) {
  }
  Json report = parse_json(text).value();
  CHECK(report["exit"]["code"] == 200);
  CHECK_FALSE(report.contains("file"));
}

TEST_CASE("exit-report and report take what they say") {
  for (const Json& option : {Json("much"), Json::array()}) {
    kit::FakeHost host;
    host.stack().push(plugins::make_exit_report(host));
    host.options().set("exit-report", option);
    auto called = host.call("shell.init");
    REQUIRE_FALSE(called);
    CHECK(called.error().message.find("expected off, line or full") != std::string::npos);
  }
  for (const Json& option : {Json(999), Json(-1), Json(""), Json::array()}) {
    kit::FakeHost host;
    host.stack().push(plugins::make_exit_report(host));
    host.options().set("report", option);
    CHECK_FALSE(host.call("shell.init"));
  }
}
