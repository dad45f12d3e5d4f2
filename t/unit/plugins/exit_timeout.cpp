// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using value::WaitStatus;

namespace {

// Running tasks, after shell.init.
struct Timeout {
  explicit Timeout(const Json& option = nullptr, unsigned tasks = 4) : host(tasks) {
    host.stack().push(plugins::make_exit_timeout(host));
    host.start_tasks();
    if (!option.is_null()) host.options().set("exit-timeout", option);
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  void end(std::size_t task, const WaitStatus& status = {}) {
    REQUIRE(error.empty());
    REQUIRE(host.end_task(task, status));
  }

  // Seconds from the end of the first task.
  std::optional<double> bound() {
    end(0);
    auto next = host.next_timer();
    return next ? std::optional(next->count()) : std::nullopt;
  }

  kit::FakeHost host;
  std::string error;
};

// Tasks that plugins know to be connected to PMI.
class Connected final : public plugin::Plugin {
 public:
  explicit Connected(std::string ranks, std::string name = "pmi") : Plugin(std::move(name)) {
    on("pmi.connected", [this, ranks = std::move(ranks)](plugin::Call& call) {
      call.out[this->name()] = ranks;
      return Result<void>();
    });
  }
};

Json after_failure(const Json& timeout) { return {{"timeout", timeout}, {"after", "failure"}}; }

std::vector<std::string> messages(const Timeout& timeout) {
  std::vector<std::string> out;
  for (const auto& each : timeout.host.exceptions) out.push_back(each.message);
  return out;
}

std::string exit_timeout_error(const Json& option) {
  std::string error = Timeout(option).error;
  constexpr std::string_view kStart = "plugin 'exit-timeout': shell.init: exit-timeout: ";
  REQUIRE(error.starts_with(kStart));
  return error.substr(kStart.size());
}

}  // namespace

TEST_CASE("with fault-tolerance the others go on, unless a time is set") {
  auto bound = [](const Json& tolerant, const Json& timeout) {
    Timeout job(nullptr, 4);
    job.host.options().set("fault-tolerance", tolerant);
    if (!timeout.is_null()) job.host.options().set("exit-timeout", timeout);
    REQUIRE(job.host.call("shell.init"));
    return job.bound();
  };
  for (const Json& on : {Json(1), Json(true), Json("on"), Json{{"signal", "SIGUSR1"}}}) {
    CHECK_FALSE(bound(on, nullptr));
    CHECK_FALSE(bound(on, Json{{"after", "failure"}}));
    CHECK(bound(on, 5) == 5);
  }
  CHECK(bound(0, nullptr) == 30);
}

TEST_CASE("the others have 30 s after the first task has ended") { CHECK(Timeout().bound() == 30); }

TEST_CASE("exit-timeout is in seconds, or a duration") {
  CHECK(Timeout(5).bound() == 5);
  CHECK(Timeout(0.25).bound() == 0.25);
  CHECK(Timeout(0).bound() == 0);
  CHECK(Timeout("2m").bound() == 120);
  CHECK(Timeout("100ms").bound() == 0.1);
  CHECK(Timeout("7").bound() == 7);
}

TEST_CASE("exit-timeout=none waits for ever") {
  for (const char* value : {"none", "infinity"}) CHECK(Timeout(value).bound() == std::nullopt);
}

TEST_CASE("no time runs before a task has ended") {
  Timeout timeout("1ms");
  REQUIRE(timeout.host.call("shell.start"));
  CHECK_FALSE(timeout.host.next_timer());
}

TEST_CASE("when the time is up the job is ended, and those that still run are named") {
  Timeout timeout("1ms");
  timeout.end(1, WaitStatus::exited(3));
  REQUIRE(timeout.host.run_loop());
  REQUIRE(timeout.host.exceptions.size() == 1);
  const plugin::RaisedException& exception = timeout.host.exceptions[0];
  CHECK(exception.type == "exec");
  CHECK(exception.severity == 0);
  CHECK(exception.message == "exit-timeout: task 1 ended 1ms ago, and these still run: 0,2-3");
  CHECK(exception.status == std::nullopt);
}

TEST_CASE("the time runs from the first end, and later ones do not begin it anew") {
  Timeout timeout("1ms");
  timeout.end(2);
  timeout.end(0);
  REQUIRE(timeout.host.run_loop());
  REQUIRE(timeout.host.exceptions.size() == 1);
  CHECK(timeout.host.exceptions[0].message == "exit-timeout: task 2 ended 1ms ago, and these still run: 1,3");
}

TEST_CASE("tasks that have all ended when the time is up are left in peace") {
  Timeout timeout("1ms", 2);
  timeout.end(0);
  timeout.end(1);
  REQUIRE(timeout.host.run_loop());
  CHECK(timeout.host.exceptions.empty());
}

TEST_CASE("the end of all tasks stops the time, that of this shell's does not") {
  Timeout timeout("1h", 2);
  timeout.end(0);
  REQUIRE(timeout.host.next_timer());
  REQUIRE(timeout.host.call("shell.finish"));
  CHECK(timeout.host.next_timer());
  REQUIRE(timeout.host.call("shell.tasks-complete"));
  CHECK_FALSE(timeout.host.next_timer());
  CHECK(timeout.host.run_loop());
}

TEST_CASE("a task that is the only one of its job is waited for by nobody") {
  CHECK(Timeout("1ms", 1).bound() == std::nullopt);
}

TEST_CASE("tasks of a shell that is lost do not begin the time, but count as over") {
  Timeout timeout("1ms");
  REQUIRE(timeout.host.report_ends(value::Idset::range(1, 1), exits::Record::lost()));
  CHECK_FALSE(timeout.host.next_timer());
  timeout.end(0);
  REQUIRE(timeout.host.run_loop());
  REQUIRE(timeout.host.exceptions.size() == 1);
  CHECK(timeout.host.exceptions[0].message == "exit-timeout: task 0 ended 1ms ago, and these still run: 2-3");
}

TEST_CASE("exit-timeout is a value, or an object; in any order both are there") {
  CHECK(Timeout(Json{{"timeout", "2m"}}).bound() == 120);
  CHECK(Timeout(Json{{"timeout", "2m"}, {"after", "exit"}}).bound() == 120);
  CHECK(Timeout(Json{{"timeout", "none"}}).bound() == std::nullopt);
  CHECK(Timeout(Json::object()).bound() == 30);
  for (bool value_first : {true, false}) {
    Timeout timeout;
    if (value_first) timeout.host.options().set("exit-timeout", "7s");
    timeout.host.options().set("exit-timeout.after", "failure");
    if (!value_first) timeout.host.options().set("exit-timeout", "7s");
    REQUIRE(timeout.host.call("shell.init"));
    timeout.end(0, WaitStatus::exited(1));
    CHECK(timeout.host.next_timer()->count() == 7);
  }
}

TEST_CASE("after=failure: the time runs from the first failure, not from an end before it") {
  Timeout timeout(after_failure("20ms"));
  timeout.end(0);
  REQUIRE(timeout.host.run_loop());
  CHECK(messages(timeout).empty());
  timeout.end(2, WaitStatus::exited(3));
  timeout.end(3, WaitStatus::exited(4));
  REQUIRE(timeout.host.run_loop());
  CHECK(messages(timeout) ==
        std::vector<std::string>{"exit-timeout: task 2 failed 20ms ago, and these still run: 1"});
}

TEST_CASE("after=failure: what exit-ok takes as success, victims and lost tasks are no failures") {
  for (const char* record : {"x77", "c/s15", "l"}) {
    Timeout timeout(after_failure("1ms"));
    timeout.host.policy = exits::Policy(exits::Policy::Kind::max, 0, value::Idset::range(77, 77));
    REQUIRE(timeout.host.report_ends(value::Idset::range(1, 1), *exits::Record::parse(record)));
    REQUIRE(timeout.host.run_loop());
    CHECK(messages(timeout).empty());
  }
}

TEST_CASE("after=failure: an end that is none ends the job where others are connected to PMI") {
  Timeout timeout(after_failure("5ms"));
  timeout.host.stack().push(std::make_unique<Connected>("0-1"));
  timeout.host.stack().push(std::make_unique<Connected>("3", "pmix"));
  timeout.end(0);
  REQUIRE(timeout.host.run_loop());
  CHECK(messages(timeout) ==
        std::vector<std::string>{"exit-timeout: task 0 ended 5ms ago, and these are still connected to PMI: 1,3"});
}

TEST_CASE("after=failure: tasks that have finalized, or do not use PMI, have all the time") {
  for (const char* connected : {"", "0"}) {  // 0 has ended
    Timeout timeout(after_failure("1ms"));
    timeout.host.stack().push(std::make_unique<Connected>(connected));
    timeout.end(0);
    REQUIRE(timeout.host.run_loop());
    CHECK(messages(timeout).empty());
    CHECK(timeout.host.logged.back() ==
          "debug exit-timeout: task 0 ended well 1ms ago; no task that runs is connected to PMI");
  }
}

TEST_CASE("after=failure: a job that ends meanwhile is asked nothing") {
  Timeout timeout(after_failure("1ms"));
  timeout.host.stack().push(std::make_unique<Connected>("0-3"));
  timeout.end(0);
  timeout.host.raise({"exec", 0, "something else", std::nullopt});
  REQUIRE(timeout.host.run_loop());
  CHECK(messages(timeout) == std::vector<std::string>{"something else"});
}

TEST_CASE("the end of all tasks stops both times") {
  Timeout timeout(after_failure("1h"));
  timeout.end(0);
  timeout.end(1, WaitStatus::exited(1));
  REQUIRE(timeout.host.next_timer());
  REQUIRE(timeout.host.call("shell.tasks-complete"));
  CHECK_FALSE(timeout.host.next_timer());
}

TEST_CASE("an exit-timeout that is no time is an error") {
  CHECK(exit_timeout_error(-1) == "expected a time that is not negative, got -1");
  CHECK(exit_timeout_error("-1s") == "duration '-1s': expected a duration that is not negative");
  CHECK(exit_timeout_error("soon") ==
        "duration 'soon': expected a number with a unit (ms, s, m, h or d) or infinity");
  CHECK(exit_timeout_error(true) == "expected seconds or a duration such as \"30s\", got true");
  CHECK(exit_timeout_error(Json::array()) == "expected seconds or a duration such as \"30s\", got an array");
}

TEST_CASE("members of exit-timeout that are wrong are named") {
  auto error = [](const Json& option) { return Timeout(option).error; };
  constexpr const char* kStart = "plugin 'exit-timeout': shell.init: exit-timeout";
  CHECK(error(Json{{"timeout", "soon"}}).starts_with(std::string(kStart) + ".timeout: duration 'soon'"));
  CHECK(error(Json{{"after", "never"}}) == std::string(kStart) + ".after: expected exit or failure, got \"never\"");
  CHECK(error(Json{{"when", "1s"}}) == std::string(kStart) + ".when: unknown key; known: timeout, after");
}
