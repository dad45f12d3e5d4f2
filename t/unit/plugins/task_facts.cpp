// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/task_facts.hpp"

#include <unistd.h>

#include "fake_node.hpp"

using namespace nacre;
using plugins::core_file;
using plugins::core_glob;
using plugins::Dumped;

TEST_CASE("the name of a core dump follows core_pattern, with * for what is not known") {
  Dumped process{4711, 11, 0, "/work dir/[1]"};
  CHECK(core_glob("core", false, process) == "/work dir/\\[1]/core");
  CHECK(core_glob("core", true, process) == "/work dir/\\[1]/core.4711");
  CHECK(core_glob("/cores/%e.%p.%s", true, process) == "/cores/*.4711.11");
  CHECK(core_glob("/cores/%%-%t-%u-%g%", false, process) ==
        fmt::format("/cores/%-*-{}-{}", ::getuid(), ::getgid()));
}

TEST_CASE("a core dump is named only if it is there, and is of this process") {
  kit::NodeFiles node;
  Dumped process{4711, 11, 0, node.path() + "/cwd"};
  CHECK(core_file(process, node.path()) == Json{{"dumped", true}});
  node.put("proc/sys/kernel/core_pattern", "core.%p\n");
  CHECK(core_file(process, node.path()) == Json{{"dumped", true}, {"pattern", "core.%p"}});
  node.put("cwd/core.4711", "x");
  CHECK(core_file(process, node.path()) == Json{{"dumped", true}, {"file", node.path() + "/cwd/core.4711"}});
  process.started = 4e9;
  CHECK(core_file(process, node.path()) == Json{{"dumped", true}, {"pattern", "core.%p"}});
  node.put("proc/sys/kernel/core_pattern", "|/lib/systemd/systemd-coredump %P %u\n");
  CHECK(core_file(process, node.path()) == Json{{"dumped", true}, {"handler", "/lib/systemd/systemd-coredump"}});
}

TEST_CASE("core_uses_pid adds the process's number") {
  kit::NodeFiles node;
  node.put("proc/sys/kernel/core_pattern", "core\n");
  node.put("proc/sys/kernel/core_uses_pid", "1\n");
  node.put("cwd/core.4711", "x");
  CHECK(core_file({4711, 11, 0, node.path() + "/cwd"}, node.path())["file"] == node.path() + "/cwd/core.4711");
}

using kit::NodeFiles;
using plugins::OomKills;

TEST_CASE("the kernel's kills for want of memory are counted from the last look on: cgroups of version 2") {
  NodeFiles node;
  node.put("proc/100/cgroup", "0::/job/shell\n");
  node.put("proc/100/mountinfo", "35 30 0:30 / /cg rw shared:9 - cgroup2 cgroup2 rw\n");
  node.put("cg/job/shell/memory.events", "low 0\noom 3\noom_kill 3\noom_group_kill 7\n");
  node.put("cg/job/shell/memory.max", "1048576\n");
  OomKills kills = OomKills::of_shell(100, node.path());
  CHECK(kills.fresh() == 0);
  node.put("cg/job/shell/memory.events", "low 0\noom 5\noom_kill 5\n");
  CHECK(kills.fresh() == 2);
  CHECK(kills.fresh() == 0);
  CHECK(kills.limit() == 1048576);
  node.put("cg/job/shell/memory.max", "max\n");
  CHECK_FALSE(kills.limit());
}

TEST_CASE("the kernel's kills for want of memory are counted: cgroups of version 1") {
  NodeFiles node;
  node.put("proc/100/cgroup", "4:memory:/m/job\n0::/x\n");
  node.put("proc/100/mountinfo", "32 20 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n");
  node.put("cg/memory/m/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  node.put("cg/memory/m/job/memory.limit_in_bytes", "9223372036854771712\n");
  OomKills kills = OomKills::of_shell(100, node.path());
  node.put("cg/memory/m/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  CHECK(kills.fresh() == 1);
  CHECK_FALSE(kills.limit());
}

TEST_CASE("where the kernel does not count there is none") {
  NodeFiles node;
  CHECK(OomKills::of_shell(100, node.path()).fresh() == 0);
  node.put("proc/100/cgroup", "0::/job\n");
  node.put("proc/100/mountinfo", "35 30 0:30 / /cg rw shared:9 - cgroup2 cgroup2 rw\n");
  node.put("cg/job/memory.events", "low 0\n");
  OomKills kills = OomKills::of_shell(100, node.path());
  CHECK(kills.fresh() == 0);
  CHECK_FALSE(kills.limit());
}
