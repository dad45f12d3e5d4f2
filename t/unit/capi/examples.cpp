// SPDX-License-Identifier: Apache-2.0
//
// The examples of plugins/examples do what their first lines say.
#include "catch.hpp"

#include "capi/loader.hpp"
#include "fake_host.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

TEST_CASE("the example task-env names each task and logs its end") {
  kit::FakeHost host;
  REQUIRE(load(host, DSO_DIRECTORY "/task-env.so", nullptr) == 1);
  host.make_tasks();
  CHECK(host.call_task("task.init", 3) == 1);
  CHECK(host.tasks()[3]->command().env.get("TASK_ID") == "3/4");

  host.options().set("task-env.name", "WHO");
  CHECK(host.call_task("task.init", 1) == 1);
  CHECK(host.tasks()[1]->command().env.get("WHO") == "1/4");

  host.tasks()[0]->exited(value::WaitStatus::killed(9), rusage{});
  host.tasks()[3]->exited(value::WaitStatus::exited(5), rusage{});
  CHECK(host.call_task("task.exit", 0) == 1);
  CHECK(host.call_task("task.exit", 3) == 1);
  CHECK(host.logged == std::vector<std::string>{"notice task-env: task 0 was killed by signal 9",
                                                "notice task-env: task 3 exited with 5"});

  host.logged.clear();
  host.options().set("task-env.name", 7);
  CHECK_FALSE(host.call_task("task.init", 2));
  CHECK(host.logged.back() == "error task-env: task-env.name: expected a string");
}

TEST_CASE("the example taskmap-reverse puts the last task first") {
  kit::FakeHost host;
  REQUIRE(load(host, DSO_DIRECTORY "/taskmap-reverse.so", nullptr) == 1);
  Call call("taskmap.reverse");
  call.in["taskmap"] = "[[0,1,2,1],[1,1,1,1],[2,1,3,1]]";
  CHECK(host.stack().call(call) == 1);
  auto map = value::Taskmap::parse(call.out.at("taskmap").get<std::string>());
  REQUIRE(map);
  CHECK(map->raw() == "4-5;3;0-2");

  Call bad("taskmap.reverse");
  bad.in["taskmap"] = "nonsense";
  CHECK_FALSE(host.stack().call(bad));
  bad.in.clear();
  CHECK_FALSE(host.stack().call(bad));
}
