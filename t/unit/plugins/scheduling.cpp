// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

struct Scheduling {
  Scheduling(const char* option, const Json& value) : host(2) {
    host.stack().push(plugins::make_scheduling(host));
    host.make_tasks();
    if (!value.is_null()) host.options().set(option, value);
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  const task::ChildSetup& of_task(std::size_t task) {
    REQUIRE(error.empty());
    REQUIRE(host.call_task("task.init", task));
    return host.tasks()[task]->command().setup;
  }

  kit::FakeHost host;
  std::string error;
};

constexpr const char* kError = "plugin 'scheduling': shell.init: ";

}  // namespace

TEST_CASE("without sched and session tasks are scheduled as the shell is, in its session") {
  Scheduling none("sched", nullptr);
  CHECK_FALSE(none.of_task(0).settings.of<task::Scheduler>());
  CHECK_FALSE(none.of_task(0).new_session);
  Scheduling in_group("nosetpgrp", true);
  CHECK_FALSE(in_group.of_task(0).new_session);
}

TEST_CASE("sched is the policy of every task") {
  CHECK(Scheduling("sched", "batch").of_task(1).settings.of<task::Scheduler>() == SCHED_BATCH);
  CHECK(Scheduling("sched", "idle").of_task(0).settings.of<task::Scheduler>() == SCHED_IDLE);
  CHECK(Scheduling("sched", "other").of_task(0).settings.of<task::Scheduler>() == SCHED_OTHER);
  for (const char* value : {"\"fifo\"", "\"\"", "true", "3"}) {
    CHECK(Scheduling("sched", Json::parse(value)).error ==
          std::string(kError) + "sched: expected batch, other or idle, got " + value);
  }
}

TEST_CASE("session gives each task one of its own, or leaves it in the shell's") {
  CHECK(Scheduling("session", "task").of_task(1).new_session);
  CHECK_FALSE(Scheduling("session", "shell").of_task(1).new_session);
  CHECK(Scheduling("session", true).error == std::string(kError) + "session: expected task or shell, got true");
}
