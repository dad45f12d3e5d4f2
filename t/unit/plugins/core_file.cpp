// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/task_facts.hpp"

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include "catch.hpp"

#include "base/json.hpp"
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
  Dumped process{4711, 11, 0, node.root() + "/cwd"};
  CHECK(core_file(process, node.root()) == Json{{"dumped", true}});
  node.put("proc/sys/kernel/core_pattern", "core.%p\n");
  CHECK(core_file(process, node.root()) == Json{{"dumped", true}, {"pattern", "core.%p"}});
  node.put("cwd/core.4711", "x");
  CHECK(core_file(process, node.root()) == Json{{"dumped", true}, {"file", node.root() + "/cwd/core.4711"}});
  process.started = 4e9;
  CHECK(core_file(process, node.root()) == Json{{"dumped", true}, {"pattern", "core.%p"}});
  node.put("proc/sys/kernel/core_pattern", "|/lib/systemd/systemd-coredump %P %u\n");
  CHECK(core_file(process, node.root()) == Json{{"dumped", true}, {"handler", "/lib/systemd/systemd-coredump"}});
}

TEST_CASE("core_uses_pid adds the process's number") {
  kit::NodeFiles node;
  node.put("proc/sys/kernel/core_pattern", "core\n");
  node.put("proc/sys/kernel/core_uses_pid", "1\n");
  node.put("cwd/core.4711", "x");
  CHECK(core_file({4711, 11, 0, node.root() + "/cwd"}, node.root())["file"] == node.root() + "/cwd/core.4711");
}
