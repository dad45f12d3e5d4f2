// SPDX-License-Identifier: Apache-2.0
#include "plugins/sysmon/sysmon.hpp"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fake_host.hpp"
#include "fake_node.hpp"

using namespace nacre;
using kit::NodeFiles;
using plugins::JobUsage;

namespace {

const std::uint64_t kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

// Whether memory and cpu time of the shell 100 are those of cgroups.
std::string sources(const NodeFiles& node) {
  JobUsage usage = JobUsage::of_shell(100, node.path());
  return std::string(usage.memory_by_cgroup() ? "cgroup" : "processes") + " " +
         (usage.cpu_by_cgroup() ? "cgroup" : "processes");
}

JobUsage::Sample sample(const NodeFiles& node, const std::vector<pid_t>& processes = {}) {
  auto taken = JobUsage::of_shell(100, node.path()).sample(processes);
  if (!taken) FAIL(taken.error().message);
  return *taken;
}

struct Version2 : NodeFiles {
  Version2() {
    put("proc/100/cgroup", "0::/job/shell\n");
    put("proc/100/mountinfo",
        "30 20 0:26 / /sys rw - sysfs sysfs rw\n"
        "35 30 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    put_cgroup("sys/fs/cgroup/job/shell");
  }
  void put_cgroup(const std::string& directory) const {
    put(directory + "/cgroup.procs", "100\n");
    put(directory + "/memory.current", "1048576\n");
    put(directory + "/memory.peak", "2097152\n");
    put(directory + "/cpu.stat", "usage_usec_total 7\nusage_usec 1500000\nuser_usec 1000000\n");
  }
};

// Controllers of version 1, as on an old node, and the hierarchy of version 2 without controllers.
struct Version1 : NodeFiles {
  Version1() {
    put("proc/100/cgroup", "9:name=systemd:/x\n4:memory:/m/job\n2:cpu,cpuacct:/c/job\n0::/x\n");
    put("proc/100/mountinfo",
        "29 20 0:29 / /other rw - other memory rw,memory,cpuacct\n"
        "31 20 0:31 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 20 0:32 / /cg/memory rw shared:1 master:2 - cgroup cgroup rw,memory\n"
        "33 20 0:33 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    put("cg/memory/m/job/cgroup.procs", "100\n");
    put("cg/memory/m/job/memory.usage_in_bytes", "4096\n");
    put("cg/memory/m/job/memory.max_usage_in_bytes", "8192\n");
    put("cg/cpu/c/job/cgroup.procs", "100\n");
    put("cg/cpu/c/job/cpuacct.usage", "2500000000\n");
    put("cg/unified/x/cgroup.procs", "100\n");
    put("cg/unified/x/cpu.stat", "usage_usec 1\n");
    put("cg/unified/x/memory.current", "1\n");
  }
};

}  // namespace

TEST_CASE_METHOD(Version2, "a cgroup of version 2 tells memory, its peak and cpu time") {
  CHECK(sources(*this) == "cgroup cgroup");
  CHECK_FALSE(JobUsage::of_shell(100, path()).needs_processes());
  JobUsage::Sample taken = sample(*this);
  CHECK(taken.memory == 1048576);
  CHECK(taken.peak == 2097152U);
  CHECK(taken.cpu == 1.5);
}

TEST_CASE_METHOD(Version1, "a cgroup of version 1 does, where there are both") {
  CHECK(sources(*this) == "cgroup cgroup");
  JobUsage::Sample taken = sample(*this);
  CHECK(taken.memory == 4096);
  CHECK(taken.peak == 8192U);
  CHECK(taken.cpu == 2.5);
}

TEST_CASE_METHOD(Version2, "an old kernel does not keep the peak") {
  remove("sys/fs/cgroup/job/shell/memory.peak");
  CHECK(sources(*this) == "cgroup cgroup");
  CHECK(sample(*this).peak == std::nullopt);
}

TEST_CASE_METHOD(Version2, "a cgroup without the memory controller tells cpu time only") {
  remove("sys/fs/cgroup/job/shell/memory.current");
  CHECK(sources(*this) == "processes cgroup");
  CHECK(JobUsage::of_shell(100, path()).needs_processes());
  put_process(101, "a", 10, 0, 0, 0, 3);
  JobUsage::Sample taken = sample(*this, {101});
  CHECK(taken.memory == 3 * kPage);
  CHECK(taken.peak == std::nullopt);
  CHECK(taken.cpu == 1.5);
}

TEST_CASE_METHOD(Version2, "a cgroup in which others are is not the job's") {
  for (const char* processes : {"99\n100\n", "100\n200\n", "0\n100\n", "1000\n", "\n"}) {
    put("sys/fs/cgroup/job/shell/cgroup.procs", processes);
    CHECK(sources(*this) == "processes processes");
  }
}

TEST_CASE_METHOD(Version2, "nor is one with cgroups below it") {
  put("sys/fs/cgroup/job/shell/other/cgroup.procs", "");
  CHECK(sources(*this) == "processes processes");
}

TEST_CASE_METHOD(Version2, "the cgroup is sought below what is mounted") {
  put("proc/100/mountinfo", "35 30 0:30 /job /cg rw - cgroup2 none rw\n");
  put_cgroup("cg/shell");
  CHECK(sources(*this) == "cgroup cgroup");
  put("proc/100/cgroup", "0::/jobs/shell\n");
  put_cgroup("cgs/shell");
  put_cgroup("cg/s/shell");
  CHECK(sources(*this) == "processes processes");
  put("proc/100/cgroup", "0::/job\n");
  put_cgroup("cg");
  CHECK(sources(*this) == "processes processes");  // the cgroup has another below it
}

TEST_CASE_METHOD(Version2, "the root of a hierarchy may be the shell's own") {
  remove("sys/fs/cgroup/job");
  put("proc/100/cgroup", "0::/\n");
  put_cgroup("sys/fs/cgroup");
  CHECK(sources(*this) == "cgroup cgroup");
}

TEST_CASE_METHOD(Version2, "a cgroup outside of the namespace cannot be read") {
  put("proc/100/cgroup", "0::/../shell\n");
  put_cgroup("sys/fs/shell");
  put_cgroup("sys/fs/cgroup");
  CHECK(sources(*this) == "processes processes");
}

TEST_CASE_METHOD(Version2, "files of the kernel that are not as expected are not relied on") {
  for (const char* text : {"", "0::\n", "nonsense", "0:/job/shell\n", ":\n"}) {
    put("proc/100/cgroup", text);
    CHECK(sources(*this) == "processes processes");
  }
  put("proc/100/cgroup", "0::/job/shell\n");
  for (const char* text :
       {"", "35 30 0:30 /\n", "- cgroup2 cgroup2 rw\n", "35 30 0:30 / /sys/fs/cgroup rw a -\n"}) {
    put("proc/100/mountinfo", text);
    CHECK(sources(*this) == "processes processes");
  }
}

TEST_CASE_METHOD(Version2, "numbers of the kernel that are not as expected are not relied on") {
  put("sys/fs/cgroup/job/shell/memory.current", "max\n");
  put("sys/fs/cgroup/job/shell/cpu.stat", "user_usec 5\n");
  CHECK(sources(*this) == "processes processes");
}

TEST_CASE_METHOD(Version2, "a file that is gone later is an error that names it") {
  JobUsage usage = JobUsage::of_shell(100, path());
  remove("sys/fs/cgroup/job");
  auto taken = usage.sample({});
  REQUIRE_FALSE(taken);
  CHECK(taken.error().message == path() + "/sys/fs/cgroup/job/shell/cpu.stat: No such file or directory");
}

TEST_CASE_METHOD(NodeFiles, "without cgroups the processes are added up") {
  auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  put_process(100, "nacre-shell", 1000, 1000, 30, 4, 500);  // its own time, and that of children it has waited for
  put_process(101, "a b) R (", 100, 20, 3, 0, 10);
  put_process(102, "sh", 0, 0, 0, 0, 1);
  CHECK(sources(*this) == "processes processes");
  JobUsage::Sample taken = sample(*this, {102, 101, 103});
  CHECK(taken.memory == 11 * kPage);
  CHECK(taken.cpu == Catch::Approx((34 + 123) / ticks));
  CHECK(taken.peak == std::nullopt);
}

TEST_CASE_METHOD(NodeFiles, "a line of the kernel's that is cut short counts for nothing") {
  put("proc/101/stat", "101 (a) R 1 2 3\n");
  put("proc/102/stat", "");
  JobUsage::Sample taken = sample(*this, {101, 102});
  CHECK(taken.memory == 0);
  CHECK(taken.cpu == 0);
}

TEST_CASE("this process has used memory and cpu time") {
  auto taken = JobUsage::of_shell(::getppid()).sample({::getpid()});
  REQUIRE(taken);
  CHECK(taken->memory > 0);
}

namespace {

using Lines = std::vector<std::string>;

// A job of two tasks whose shell, process 100, is alone in its cgroup.
struct Monitored {
  Monitored() {
    host.stack().push(plugins::make_sysmon_of(host, 100, node.path()));
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

  // Serves the loop until this many lines are logged.
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
  CHECK(host.logged[0] == "warn sysmon: " + node.path() +
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
