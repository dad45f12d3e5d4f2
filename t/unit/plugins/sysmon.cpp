// SPDX-License-Identifier: Apache-2.0
#include "plugins/sysmon/sysmon.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include "catch.hpp"

#include "fake_host.hpp"
#include "fake_node.hpp"

using namespace nacre;

namespace {

using Lines = std::vector<std::string>;

// A job of two tasks whose shell, process 100, is alone in its cgroup.
struct Monitored {
  Monitored() {
    host.stack().push(plugins::make_sysmon_of(host, 100, node.root()));
    node.put("proc/100/cgroup", "0::/job\n");
    node.put("proc/100/mountinfo", "35 30 0:30 / /cg rw - cgroup2 cgroup2 rw\n");
    node.put("cg/job/cgroup.procs", "100\n");
    use(4096, 5000, 0);
  }

  void use(std::uint64_t memory, std::uint64_t peak, std::uint64_t microseconds) const {
    node.put("cg/job/memory.current", fmt::format("{}\n", memory));
    node.put("cg/job/memory.peak", fmt::format("{}\n", peak));
    node.put("cg/job/cpu.stat", fmt::format("usage_usec {}\n", microseconds));
  }
  void forget_peak() const { node.remove("cg/job/memory.peak"); }
  void forget_cgroup() const { node.remove("cg"); }

  std::string call(std::string_view topic) {
    auto called = host.call(topic);
    return called ? "ok" : called.error().message;
  }
  void start() {
    REQUIRE(call("shell.init") == "ok");
    host.start_tasks();
    for (std::size_t i : {0U, 1U}) REQUIRE(host.call_task("task.fork", i));
  }
  void finish() { REQUIRE(call("shell.finish") == "ok"); }

  // Serves the loop until so many lines are logged.
  void trace(std::size_t lines) {
    bool late = false;
    auto guard = event::Timer::create(host.loop(), [&] { late = true; }).value();
    guard.start(kit::FakeHost::kTimeout);
    host.loop().run_until([&] { return late || host.logged.size() >= lines; });
    REQUIRE_FALSE(late);
  }

  kit::NodeFiles node;
  kit::FakeHost host{2};
};

std::string before_number(const std::string& line) { return line.substr(0, line.find('=') + 1); }
double number(const std::string& line) { return std::stod(line.substr(line.find('=') + 1)); }

}  // namespace

TEST_CASE("nothing is measured unless it is asked for") {
  for (const Json& off : {Json(), Json(false), Json(0)}) {
    Monitored other;
    if (!off.is_null()) other.host.options().set("sysmon", off);
    other.start();
    CHECK_FALSE(other.host.next_timer());
    other.finish();
    CHECK(other.host.logged.empty());
  }
}

TEST_CASE_METHOD(Monitored, "the peak of memory and the mean load are logged at the end") {
  host.options().set("sysmon", 1);
  start();
  use(4096, 1610612736, 0);
  finish();
  CHECK(host.logged == Lines{"notice sysmon: memory.peak=1.5G (cgroup)", "notice sysmon: loadavg-overall=0.00"});
  CHECK_FALSE(host.next_timer());
}

TEST_CASE_METHOD(Monitored, "the load is the cpu time since the first task, by the time that has passed") {
  use(4096, 5000, 900'000'000'000);
  host.options().set("sysmon.period", 0.01);
  start();
  double begun = host.loop().now();
  trace(2);
  use(4096, 5000, 900'000'000'000 + 7'000'000);
  finish();
  double passed = host.loop().now() - begun;
  CHECK(number(host.logged.back()) == Catch::Approx(7 / passed).margin(0.006));
}

TEST_CASE_METHOD(Monitored, "the first task begins it, and no later one begins it anew") {
  host.options().set("sysmon", 1);
  REQUIRE(call("shell.init") == "ok");
  host.start_tasks();
  use(4096, 5000, 3'600'000'000);
  REQUIRE(host.call_task("task.fork", 0));
  use(4096, 5000, 7'200'000'000);
  REQUIRE(host.call_task("task.fork", 1));
  finish();
  CHECK(number(host.logged.back()) > 1);
}

TEST_CASE("sizes have units of powers of 1024") {
  const std::vector<std::pair<std::uint64_t, const char*>> sizes{{1, "1"},
                                                                 {1023, "1023"},
                                                                 {1024, "1.0K"},
                                                                 {1 << 20, "1.0M"},
                                                                 {3 << 19, "1.5M"},
                                                                 {std::uint64_t{1} << 40, "1.0T"},
                                                                 {std::uint64_t{1} << 50, "1.0P"},
                                                                 {std::uint64_t{1} << 63, "8.0E"}};
  for (const auto& [bytes, text] : sizes) {
    Monitored other;
    other.host.options().set("sysmon", 1);
    other.use(0, bytes, 0);
    other.start();
    other.finish();
    CHECK(other.host.logged[0] == fmt::format("notice sysmon: memory.peak={} (cgroup)", text));
  }
}

TEST_CASE_METHOD(Monitored, "a load that the kernel counts backwards is none") {
  use(4096, 5000, 5'000'000);
  host.options().set("sysmon", 1);
  start();
  use(4096, 5000, 1'000'000);
  finish();
  CHECK(host.logged.back() == "notice sysmon: loadavg-overall=0.00");
}

TEST_CASE_METHOD(Monitored, "samples are traced, each with the load since the one before") {
  host.options().set("sysmon", Json{{"period", "1ms"}});
  start();
  trace(2);
  REQUIRE(host.logged.size() == 2);
  CHECK(host.logged[0] == "trace sysmon: memory.current=4.0K");
  CHECK(host.logged[1] == "trace sysmon: loadavg=0.00");
  use(512, 5000, 3'600'000'000);
  trace(4);
  CHECK(host.logged[2] == "trace sysmon: memory.current=512");
  CHECK(before_number(host.logged[3]) == "trace sysmon: loadavg=");
  CHECK(number(host.logged[3]) > 1);
  trace(6);
  CHECK(host.logged[5] == "trace sysmon: loadavg=0.00");
}

TEST_CASE("samples are taken soon, then less often, up to sysmon.period or 2 s, and keep no loop going") {
  using Times = std::vector<double>;
  const std::vector<std::pair<Json, Times>> cases{{true, {0.03, 0.3, 2}},
                                                  {Json::object(), {0.03, 0.3, 2}},
                                                  {Json{{"period", "70ms"}}, {0.03, 0.07, 0.07}},
                                                  {Json{{"period", 0.01}}, {0.01, 0.01, 0.01}}};
  for (const auto& [option, times] : cases) {
    Monitored other;
    other.host.options().set("sysmon", option);
    other.start();
    Times seen;
    for (std::size_t samples = 1; samples <= 3; ++samples) {
      seen.push_back(other.host.next_timer().value_or(event::Seconds(0)).count());
      if (samples < 3) other.trace(2 * samples);
    }
    CHECK(seen == times);
    CHECK(other.host.run_loop());
  }
}

TEST_CASE_METHOD(Monitored, "a peak that the kernel does not keep is that of the samples") {
  forget_peak();
  host.options().set("sysmon.period", "1ms");
  start();
  node.put("cg/job/memory.current", "3072\n");
  trace(2);
  node.put("cg/job/memory.current", "9216\n");
  std::size_t seen = host.logged.size();
  trace(seen + 2);
  node.put("cg/job/memory.current", "2048\n");
  finish();
  CHECK(host.logged[host.logged.size() - 2] == "notice sysmon: memory.peak=9.0K (cgroup, sampled)");
}

TEST_CASE_METHOD(Monitored, "and at least that of each task, in which short tasks are seen too") {
  forget_cgroup();
  host.options().set("sysmon", 1);
  start();
  rusage usage{};
  usage.ru_maxrss = 3L << 20;  // KiB
  host.tasks()[0]->exited({}, usage);
  REQUIRE(host.call_task("task.exit", 0));
  REQUIRE(host.end_task(1, {}));
  finish();
  CHECK(host.logged[0] == "notice sysmon: memory.peak=3.0G (processes, sampled)");
}

TEST_CASE_METHOD(Monitored,
                 "a task's peak that may be that of this process, from before its exec, is passed over") {
  forget_cgroup();
  host.options().set("sysmon", 1);
  start();
  rusage usage{};
  REQUIRE(::getrusage(RUSAGE_SELF, &usage) == 0);
  host.tasks()[0]->exited({}, usage);
  REQUIRE(host.call_task("task.exit", 0));
  finish();
  CHECK(host.logged[0] == "notice sysmon: memory.peak=unknown (processes, sampled)");
}

TEST_CASE_METHOD(Monitored, "a peak that the kernel keeps is left as it is") {
  host.options().set("sysmon", 1);
  start();
  rusage usage{};
  usage.ru_maxrss = 3L << 20;
  host.tasks()[0]->exited({}, usage);
  REQUIRE(host.call_task("task.exit", 0));
  finish();
  CHECK(host.logged[0] == "notice sysmon: memory.peak=4.9K (cgroup)");
}

TEST_CASE_METHOD(Monitored, "a cgroup that is gone is a warning, and the end of it") {
  host.options().set("sysmon", 1);
  start();
  forget_cgroup();
  finish();
  REQUIRE(host.logged.size() == 1);
  CHECK(host.logged[0] == "warn sysmon: " + node.root() +
                              "/cg/job/cpu.stat: No such file or directory: nothing more will be measured");
  CHECK_FALSE(host.next_timer());
  finish();
  CHECK(host.logged.size() == 1);
}

TEST_CASE_METHOD(Monitored, "a job that never had a task has nothing to say") {
  host.options().set("sysmon", 1);
  REQUIRE(call("shell.init") == "ok");
  finish();
  CHECK(host.logged.empty());
}

TEST_CASE("sysmon measures this very machine, with and without cgroups") {
  kit::FakeHost host(1);
  host.stack().push(plugins::make_sysmon(host));
  host.options().set("sysmon", 1);
  REQUIRE(host.call("shell.init"));
  host.start_tasks();
  REQUIRE(host.call_task("task.fork", 0));
  rusage usage{};
  usage.ru_maxrss = 1L << 30;
  host.tasks()[0]->exited({}, usage);
  REQUIRE(host.call_task("task.exit", 0));
  REQUIRE(host.call("shell.finish"));
  REQUIRE(host.logged.size() == 2);
  CHECK(before_number(host.logged[0]) == "notice sysmon: memory.peak=");
  CHECK(number(host.logged[0]) > 0);
  CHECK(before_number(host.logged[1]) == "notice sysmon: loadavg-overall=");
}

TEST_CASE_METHOD(Monitored, "options that cannot be meant are errors") {
  const std::string start = "plugin 'sysmon': shell.init: ";
  host.options().set("sysmon.badopt", 1);
  CHECK(call("shell.init") == start + "sysmon.badopt: unknown key; known: period");
  host.options().set("sysmon", "maybe");
  CHECK(call("shell.init") == start + "sysmon: expected on or off, got \"maybe\"");
  host.options().set("sysmon.period", "nonfsd");
  CHECK(call("shell.init").starts_with(start + "sysmon.period: duration 'nonfsd'"));
  host.options().set("sysmon.period", 0);
  CHECK(call("shell.init") == start + "sysmon.period: expected a time that is not 0, got 0");
}
