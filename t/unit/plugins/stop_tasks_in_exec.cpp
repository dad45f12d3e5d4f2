// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

struct Stop {
  explicit Stop(const Json& option = nullptr) : host(2) {
    host.stack().push(plugins::make_stop_tasks_in_exec(host));
    host.make_tasks();
    if (!option.is_null()) host.options().set("stop-tasks-in-exec", option);
    REQUIRE(host.call("shell.init"));
  }

  bool traced(std::size_t task) {
    REQUIRE(host.call_task("task.init", task));
    return host.tasks()[task]->command().setup.trace_me;
  }

  kit::FakeHost host;
};

}  // namespace

TEST_CASE("every task is stopped in exec if stop-tasks-in-exec is on") {
  for (const Json& option : {Json(1), Json(true), Json("1")}) {
    Stop stop(option);
    CHECK(stop.traced(0));
    CHECK(stop.traced(1));
  }
}

TEST_CASE("no task is stopped in exec unless that is asked for") {
  for (const Json& option : {Json(nullptr), Json(0), Json(false), Json("0")}) CHECK_FALSE(Stop(option).traced(0));
}

TEST_CASE("stop-tasks-in-exec has to be a switch") {
  kit::FakeHost host(1);
  host.stack().push(plugins::make_stop_tasks_in_exec(host));
  host.options().set("stop-tasks-in-exec", "perhaps");
  Result<int> called = host.call("shell.init");
  REQUIRE_FALSE(called);
  CHECK(called.error().message ==
        "plugin 'stop-tasks-in-exec': shell.init: stop-tasks-in-exec: expected on or off, got "
        "\"perhaps\"");
}
