// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"
#include "variable.hpp"

using namespace nacre;

namespace {

constexpr double kHour = 3600;  // seconds

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// A job that expires in this many seconds.
struct Warning {
  explicit Warning(const Json& option, double expires_in = kHour) {
    host.mutable_job().resources.expiration = now() + expires_in;
    host.stack().push(plugins::make_signal(host));
    host.start_tasks();
    if (!option.is_null()) host.options().set("signal", option);
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  void start() {
    REQUIRE(error.empty());
    REQUIRE(host.call("shell.start"));
  }

  // How long before the job expires the signal is due. The clock runs on between the test and the plugin: the
  // result may be late, by far less than the differences that are tested.
  double timeleft() {
    start();
    auto next = host.next_timer();
    REQUIRE(next);
    return host.job().resources.expiration - now() - next->count();
  }

  // The signal that the tasks get, when it is due at once.
  int signal() {
    start();
    REQUIRE(host.run_loop());
    REQUIRE(host.signals.size() == 1);
    return host.signals[0];
  }

  kit::FakeHost host;
  std::string error;
};

int signal_for(const Json& signum) { return Warning(Json{{"signum", signum}, {"timeleft", kHour}}).signal(); }

double timeleft_for(const Json& timeleft) { return Warning(Json{{"timeleft", timeleft}}).timeleft(); }

std::string signal_error(const Json& option) {
  std::string error = Warning(option).error;
  constexpr std::string_view kStart = "plugin 'signal': shell.init: signal";
  REQUIRE(error.starts_with(kStart));
  return error.substr(kStart.size());
}

Catch::Approx about(double seconds) { return Catch::Approx(seconds).margin(20); }

}  // namespace

TEST_CASE("no signal is sent unless that is asked for") {
  for (const Json& option : {Json(nullptr), Json(0), Json(false), Json("0")}) {
    Warning warning(option);
    warning.start();
    CHECK_FALSE(warning.host.next_timer());
    CHECK(warning.host.logged.empty());
  }
}

TEST_CASE("the tasks get SIGUSR1 60 s before R expires") {
  for (const Json& option : {Json(1), Json(true), Json("1"), Json::object()}) {
    CHECK(Warning(option).timeleft() == about(60));
    CHECK(Warning(option, 60).signal() == SIGUSR1);
  }
}

TEST_CASE("timeleft is in seconds, or a duration") {
  CHECK(timeleft_for(600) == about(600));
  CHECK(timeleft_for(600.5) == about(600));
  CHECK(timeleft_for("15m") == about(900));
  CHECK(timeleft_for(0) == about(0));
}

TEST_CASE("signum is a number or a name") {
  CHECK(signal_for(12) == 12);
  CHECK(signal_for(1) == 1);
  CHECK(signal_for(64) == 64);
  CHECK(signal_for("USR2") == SIGUSR2);
  CHECK(signal_for("SIGTERM") == SIGTERM);
  CHECK(signal_for("15") == SIGTERM);
  CHECK(signal_for("rtmin+1") == SIGRTMIN + 1);
}

TEST_CASE("the signal is sent when it is due, once, and not before") {
  Warning warning(Json{{"signum", 12}, {"timeleft", kHour}}, kHour + 0.2);
  warning.start();
  CHECK(warning.host.signals.empty());
  REQUIRE(warning.host.run_loop());
  CHECK(now() > warning.host.job().resources.expiration - kHour - 0.1);  // clocks differ a little
  CHECK(warning.host.signals == std::vector{12});
}

TEST_CASE("a job that has less time than timeleft is warned at once, and told how long it has") {
  Warning warning(Json{{"timeleft", "2h"}}, 0);
  CHECK(warning.signal() == SIGUSR1);
  CHECK(warning.host.logged ==
        std::vector<std::string>{"notice signal: the job expires in 0 s: sending SIGUSR1 to the tasks"});
}

TEST_CASE("no signal is sent before the tasks run") {
  Warning warning(Json{{"timeleft", "2h"}});
  CHECK_FALSE(warning.host.next_timer());
}

TEST_CASE("the end of all tasks calls the signal off") {
  for (const char* topic : {"shell.finish", "shell.tasks-complete"}) {
    Warning warning(1);
    warning.start();
    REQUIRE(warning.host.next_timer());
    REQUIRE(warning.host.call(topic));
    CHECK_FALSE(warning.host.next_timer());
    CHECK(warning.host.run_loop());
  }
}

TEST_CASE("where R has no end, Slurm's is the job's") {
  kit::Variable slurm("SLURM_JOB_END_TIME", std::to_string(static_cast<long>(now() + 30)));
  Warning warning(1);
  warning.host.mutable_job().resources.expiration = 0;
  CHECK(warning.signal() == SIGUSR1);
}

TEST_CASE("a manager's end that is no time is passed over, with a line") {
  kit::Variable slurm("SLURM_JOB_END_TIME", "soon");
  Warning warning(1);
  warning.host.mutable_job().resources.expiration = 0;
  warning.start();
  CHECK_FALSE(warning.host.next_timer());
  CHECK(warning.host.logged.front() ==
        "warn signal: SLURM_JOB_END_TIME: expected seconds since the Epoch, got 'soon'; it is passed over");
}

TEST_CASE("what another shell tells is sent to the tasks here, and nothing else is") {
  Warning warning(nullptr);
  warning.start();
  for (const char* bytes : {"", "x", "0", "65", "-1"}) warning.host.announced("signal", bytes);
  warning.host.announced("other", "12");
  CHECK(warning.host.signals.empty());
  warning.host.announced("signal", "12");
  CHECK(warning.host.signals == std::vector{12});
}

namespace {

constexpr const char* kNoEnd =
    "warn signal: no signal will be sent, as nothing says when the job's time is over{}: no time-limit, duration "
    "or "
    "expiration, and no limit of the manager's";

// A squeue that runs this script.
struct Squeue {
  explicit Squeue(const std::string& script) {
    REQUIRE(::chmod(directory.file("squeue", "#!/bin/sh\n" + script + "\n").c_str(), 0755) == 0);
  }
  kit::TemporaryFolder directory;
  kit::Variable path{"PATH", directory.path("") + ":/usr/bin:/bin"};
  kit::Variable job{"SLURM_JOB_ID", "77"};
};

}  // namespace

TEST_CASE("a job that never expires gets no signal, and a warning says so") {
  Warning warning(1);
  warning.host.mutable_job().resources.expiration = 0;
  warning.start();
  CHECK_FALSE(warning.host.next_timer());
  CHECK(warning.host.logged == std::vector{fmt::format(fmt::runtime(kNoEnd), "")});
}

TEST_CASE("the earliest end counts: a time-limit, the jobspec's duration, R's, the manager's") {
  using Ends = std::map<std::string, double>;
  auto timeleft_of = [](const Ends& ends) {
    Warning warning(1);
    warning.host.mutable_job().resources.expiration = 0;
    std::optional<kit::Variable> slurm;
    for (const auto& [kind, at] : ends) {
      if (kind == "R") warning.host.mutable_job().resources.expiration = now() + at;
      if (kind == "duration") warning.host.mutable_job().spec.duration = at;
      if (kind == "limit") warning.host.options().set("time-limit", at);
      if (kind == "slurm") slurm.emplace("SLURM_JOB_END_TIME", std::to_string(static_cast<long>(now() + at)));
    }
    warning.start();
    auto next = warning.host.next_timer();
    REQUIRE(next);
    return next->count();
  };
  for (const char* each : {"R", "duration", "limit", "slurm"}) {
    CHECK(timeleft_of({{each, kHour}}) == about(kHour - 60));
    Ends ends{{"R", 2 * kHour}, {"limit", 3 * kHour}, {"slurm", 4 * kHour}};
    if (std::string(each) == "duration") ends.erase("limit");
    ends[each] = kHour;
    CHECK(timeleft_of(ends) == about(kHour - 60));
  }
}

TEST_CASE("where Slurm gives no variable, squeue tells") {
  Squeue squeue("[ \"$3\" = 77 ] && echo 1:01");
  Warning warning(1);
  warning.host.mutable_job().resources.expiration = 0;
  CHECK(warning.signal() == SIGUSR1);
  REQUIRE(warning.host.logged.size() == 1);
  CHECK_THAT(warning.host.logged[0], Catch::Matchers::StartsWith("notice signal: the job expires in 60 s"));
}

TEST_CASE("where squeue does not tell, the warning has why") {
  for (auto [script, why] :
       {std::pair{"echo slurm is down >&2; exit 1", " (squeue: exited with code 1: slurm is down)"},
        {"echo UNLIMITED", ""},
        {"echo INVALID", " (squeue: expected [DAYS-]HOURS:MINUTES:SECONDS, got 'INVALID')"}}) {
    Squeue squeue(script);
    Warning warning(1);
    warning.host.mutable_job().resources.expiration = 0;
    warning.start();
    REQUIRE(warning.host.run_loop());
    CHECK(warning.host.logged == std::vector{fmt::format(fmt::runtime(kNoEnd), why)});
  }
}

TEST_CASE("a signum that is no signal is an error") {
  CHECK(signal_error(Json{{"signum", 0}}) == ".signum: expected an integer from 1 to 64, got 0");
  CHECK(signal_error(Json{{"signum", 65}}) == ".signum: expected an integer from 1 to 64, got 65");
  CHECK(signal_error(Json{{"signum", true}}) == ".signum: expected an integer from 1 to 64, got true");
  for (const char* name : {"FOO", "", "0", "65", "-1"}) {
    CHECK(signal_error(Json{{"signum", name}}) ==
          ".signum: expected a signal's number or name, got \"" + std::string(name) + "\"");
  }
}

TEST_CASE("a timeleft that is no time is an error") {
  CHECK(signal_error(Json{{"timeleft", -1}}) == ".timeleft: expected a time that is not negative, got -1");
  CHECK(signal_error(Json{{"timeleft", "1y"}}) ==
        ".timeleft: duration '1y': unknown unit 'y', expected ms, s, m, h or d");
  CHECK(signal_error(Json{{"timeleft", true}}) ==
        ".timeleft: expected seconds or a duration such as \"30s\", got true");
}

TEST_CASE("signal has no other members, and a bare signal is a switch, not a number or a name") {
  CHECK(signal_error(Json{{"signal", 12}}) == ".signal: unknown key; known: signum, timeleft");
  for (const char* value : {"12", "2", "\"USR2\""}) {
    CHECK(signal_error(Json::parse(value)) ==
          ": expected on or off, or {\"signum\": N, \"timeleft\": DURATION}, got " + std::string(value));
  }
}
