// SPDX-License-Identifier: Apache-2.0
#include "plugins/sysmon/sysmon.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"

#include "fake_node.hpp"

using namespace nacre;
using kit::NodeFiles;
using plugins::JobUsage;

namespace {

const std::uint64_t kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

// Whether memory and cpu time of the shell 100 are those of cgroups.
std::string sources(const NodeFiles& node) {
  JobUsage usage = JobUsage::of_shell(100, node.root());
  return std::string(usage.memory_by_cgroup() ? "cgroup" : "processes") + " " +
         (usage.cpu_by_cgroup() ? "cgroup" : "processes");
}

JobUsage::Sample sample(const NodeFiles& node, const std::vector<pid_t>& processes = {}) {
  auto taken = JobUsage::of_shell(100, node.root()).sample(processes);
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

// Controllers of version 1, as an old node has them, and the hierarchy of version 2 without any.
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
  CHECK_FALSE(JobUsage::of_shell(100, root()).needs_processes());
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
  CHECK(JobUsage::of_shell(100, root()).needs_processes());
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
  CHECK(sources(*this) == "processes processes");  // there is one below it
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
  JobUsage usage = JobUsage::of_shell(100, root());
  remove("sys/fs/cgroup/job");
  auto taken = usage.sample({});
  REQUIRE_FALSE(taken);
  CHECK(taken.error().message == root() + "/sys/fs/cgroup/job/shell/cpu.stat: No such file or directory");
}

TEST_CASE_METHOD(NodeFiles, "without cgroups the processes are added up") {
  auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  put_process(100, "nacre-shell", 1000, 1000, 30, 4, 500);  // of itself, what it has waited for
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
