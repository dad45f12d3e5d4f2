// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "event/clock.hpp"
#include "fake_host.hpp"
#include "plugins/builtins.hpp"
#include "variable.hpp"

using namespace nacre;

namespace {

struct Limited {
  explicit Limited(const Json& option = nullptr, double duration = 0, double expires_in = 0) {
    host.mutable_job().spec.duration = duration;
    if (expires_in != 0) host.mutable_job().resources.expiration = event::wall_clock() + expires_in;
    host.stack().push(plugins::make_time_limit(host));
    host.start_tasks();
    if (!option.is_null()) host.options().set("time-limit", option);
  }

  bool start() { return static_cast<bool>(host.call("shell.init")) && static_cast<bool>(host.call("shell.start")); }

  // The message of the exception that ends the job.
  std::string message() {
    REQUIRE(start());
    REQUIRE(host.run_loop());
    REQUIRE(host.exceptions.size() == 1);
    CHECK(host.exceptions[0].type == "timeout");
    CHECK(host.exceptions[0].severity == 0);
    CHECK_FALSE(host.exceptions[0].status);
    return host.exceptions[0].message;
  }

  kit::FakeHost host;
};

bool is_refused(const Json& option) { return !Limited(option).start(); }

}  // namespace

TEST_CASE("a job's time is the option's, or R's, or the jobspec's") {
  CHECK(Limited("10ms", 3600, 3600).message() == "time-limit: 10ms are over, and these tasks still run: 0-3");
  CHECK(Limited(nullptr, 3600, 0.01).message() == "R has expired, and these tasks still run: 0-3");
  CHECK(Limited(nullptr, 0.01).message() ==
        "the jobspec's duration of 10ms is over, and these tasks still run: 0-3");
  CHECK(Limited(nullptr, 3600, -100).message() == "R has expired, and these tasks still run: 0-3");
}

TEST_CASE("the time that the manager has given is the job's where neither the option nor R has one") {
  auto at = [](double seconds) { return std::to_string(static_cast<long>(event::wall_clock() + seconds)); };
  kit::Variable slurm("SLURM_JOB_END_TIME", at(-5));
  CHECK(Limited().message() == "the time that Slurm has given is over, and these tasks still run: 0-3");
  CHECK(Limited(nullptr, 3600).message() ==
        "the time that Slurm has given is over, and these tasks still run: 0-3");
  CHECK(Limited("10ms").message() == "time-limit: 10ms are over, and these tasks still run: 0-3");
  CHECK(Limited(nullptr, 0, 0.01).message() == "R has expired, and these tasks still run: 0-3");
  Limited off("none");
  REQUIRE(off.start());
  CHECK_FALSE(off.host.next_timer());

  kit::Variable later("SLURM_JOB_END_TIME", at(3600));
  CHECK(Limited(nullptr, 0.01).message() ==
        "the jobspec's duration of 10ms is over, and these tasks still run: 0-3");
  Limited limited;
  REQUIRE(limited.start());
  CHECK(limited.host.next_timer()->count() == Catch::Approx(3600).margin(20));
}

TEST_CASE("a time limit that a manager gives and that is no time is passed over, with a line") {
  kit::Variable slurm("SLURM_JOB_END_TIME", "soon");
  Limited limited;
  REQUIRE(limited.start());
  CHECK_FALSE(limited.host.next_timer());
  CHECK(limited.host.logged.front() ==
        "warn time-limit: SLURM_JOB_END_TIME: expected seconds since the Epoch, got 'soon'; it is passed over");
}

TEST_CASE("a job without a limit, or with time-limit=none, is not ended") {
  Limited none;
  REQUIRE(none.start());
  CHECK_FALSE(none.host.next_timer());
  CHECK(none.host.logged.back() == "debug time-limit: the job has no time limit");
  Limited off("none", 1, 1);
  REQUIRE(off.start());
  CHECK_FALSE(off.host.next_timer());
}

TEST_CASE("tasks that have ended are not named, and a job whose tasks all have is not ended") {
  Limited limited("50ms");
  REQUIRE(limited.start());
  REQUIRE(limited.host.end_task(0, value::WaitStatus::exited(0)));
  REQUIRE(limited.host.end_task(2, value::WaitStatus::exited(1)));
  REQUIRE(limited.host.run_loop());
  REQUIRE(limited.host.exceptions.size() == 1);
  CHECK(limited.host.exceptions[0].message == "time-limit: 50ms are over, and these tasks still run: 1,3");

  Limited done("1h");
  REQUIRE(done.start());
  CHECK(done.host.next_timer());
  REQUIRE(done.host.call("shell.tasks-complete"));
  CHECK_FALSE(done.host.next_timer());
}

TEST_CASE("a time limit is a time") {
  for (const Json& option : {Json("soon"), Json(-1), Json(0), Json("0s"), Json(true), Json::array()})
    CHECK(is_refused(option));
}
