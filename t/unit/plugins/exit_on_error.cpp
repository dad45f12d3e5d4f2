// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include <catch2/catch.hpp>

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
std::vector<plugin::Exception> raised(const Json& option, const std::vector<WaitStatus>& ends) {
  kit::FakeHost host;
  init(host, option);
  for (std::size_t task = 0; task < ends.size(); ++task) REQUIRE(host.end_task(task, ends[task]));
  return host.exceptions;
}

}  // namespace

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

TEST_CASE("exit-on-error is a switch or `first`") {
  kit::FakeHost host;
  host.stack().push(plugins::make_exit_on_error(host));
  for (const char* value : {"\"last\"", "[]", "null"}) {
    host.options().set("exit-on-error", Json::parse(value));
    Result<int> called = host.call("shell.init");
    REQUIRE_FALSE(called);
    CHECK(
        called.error().message ==
        "plugin 'exit-on-error': shell.init: exit-on-error: expected true or false, a number, or \"first\", got " +
            std::string(value == std::string("[]") ? "an array" : value));
  }
}
