// SPDX-License-Identifier: Apache-2.0
//
// Looks at GPUs by stand-ins of their tools, which are sh scripts here.
#include "plugins/usage/meter.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include <fmt/format.h>
#include "catch.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "variable.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT

namespace {

constexpr const char* kDevice = "echo '0, GPU-a, 50, 100, 1000'";

struct GpuWorld {
  GpuWorld() : path("PATH", folder.path("") + ":/usr/bin:/bin") {}
  ~GpuWorld() {
    if (child > 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  GpuWorld(const GpuWorld&) = delete;
  GpuWorld& operator=(const GpuWorld&) = delete;

  void put(const char* tool, const std::string& script) const {
    std::string file = folder.file(tool, "#!/bin/sh\necho \"$0 $*\" >>" + folder.path("calls") + "\n" + script);
    REQUIRE(::chmod(file.c_str(), 0755) == 0);
  }
  void put_nvidia(const std::string& devices, const std::string& processes) const {
    put("nvidia-smi", fmt::format("case $1 in --query-gpu=*) {};; *) {};; esac\n", devices, processes));
  }
  [[nodiscard]] std::size_t calls() const {
    auto text = read_file(folder.path("calls"));
    return text ? static_cast<std::size_t>(std::count(text->begin(), text->end(), '\n')) : 0;
  }
  // A task of rank 2 that runs, with a process below it.
  void start_task() {
    child = ::fork();
    if (child == 0) {
      if (::fork() == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) ::pause();
    }
    host.start_tasks({{2, child}});
  }
  GpuWatch& watch(event::Seconds most = GpuWatch::kMostTime) {
    if (!own)
      own.emplace(
          host, [this](const std::string& why) { said.push_back(why); }, most);
    return *own;
  }
  usage::GpuLook look(event::Seconds most = GpuWatch::kMostTime) {
    std::optional<usage::GpuLook> out;
    watch(most).look([&](const usage::GpuLook& look) { out = look; });
    REQUIRE(host.serve([&] { return out.has_value(); }));
    return *out;
  }

  kit::TemporaryFolder folder;
  kit::Variable path;
  kit::FakeHost host;
  std::vector<std::string> said;
  pid_t child = 0;
  std::optional<GpuWatch> own;
};

}  // namespace

TEST_CASE("the tools that are in the PATH are asked, one after the other, and only for a look") {
  GpuWorld world;
  world.start_task();
  world.put_nvidia(kDevice, fmt::format("echo '{}, GPU-a, 7'", world.child));
  world.put("rocm-smi", R"sh(echo '{"card0": {"GPU use (%)": "3"}}')sh");
  world.watch();
  CHECK(world.calls() == 0);
  auto look = world.look();
  CHECK(look.is_complete);
  CHECK(look.devices.size() == 2);
  CHECK(world.calls() == 3);
  auto tasks = gpus_of_tasks(world.host, look);
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[2] == usage::TaskGpu{7 << 20, 0.5});
  CHECK(world.said.empty());
  CHECK(world.watch().notes().empty());
}

TEST_CASE("who comes while a look is under way gets the same one") {
  GpuWorld world;
  world.put_nvidia(kDevice, ":");
  int done = 0;
  for (int i = 0; i < 3; ++i) world.watch().look([&](const usage::GpuLook&) { ++done; });
  REQUIRE(world.host.serve([&] { return done == 3; }));
  CHECK(world.calls() == 2);
}

TEST_CASE("a tool that fails is told of once, is asked three times in a row, and the others go on") {
  GpuWorld world;
  world.put_nvidia("echo 'NVIDIA-SMI has failed: no driver'; exit 9", ":");
  world.put("rocm-smi", R"sh(echo '{"card0": {"GPU use (%)": "3"}}')sh");
  for (int i = 0; i < 5; ++i) {
    auto look = world.look();
    CHECK_FALSE(look.is_complete);
    CHECK(look.devices.size() == 1);
  }
  CHECK(world.calls() == 3 + 5);
  REQUIRE(world.said.size() == 1);
  CHECK(world.said[0].starts_with(
      "nvidia-smi: exited with code 9: NVIDIA-SMI has failed: no driver: what tasks use"));
  CHECK(world.watch().notes() == std::set<std::string>{world.said[0]});
}

TEST_CASE("a tool that works again is asked as before") {
  GpuWorld world;
  world.put_nvidia(kDevice, "echo garbage");
  CHECK_FALSE(world.look().is_complete);
  CHECK_FALSE(world.look().is_complete);
  world.put_nvidia(kDevice, ":");
  CHECK(world.look().is_complete);
  CHECK(world.watch().notes().empty());
  world.put_nvidia(kDevice, "exit 1");
  for (int i = 0; i < 2; ++i) CHECK_FALSE(world.look().is_complete);
  world.put_nvidia(kDevice, ":");
  CHECK(world.look().is_complete);
  REQUIRE(world.said.size() == 1);
  CHECK(world.said[0].starts_with("nvidia-smi: it prints 'garbage', expected pid, UUID"));
}

TEST_CASE("one that hangs is killed with all that it has started, and one that prints without end is cut off") {
  GpuWorld world;
  world.put("rocm-smi", "sleep 600 & echo '{'; wait");
  CHECK_FALSE(world.look(event::Seconds(0.3)).is_complete);
  REQUIRE(world.said.size() == 1);
  CHECK(world.said[0].starts_with("rocm-smi: took longer than 0.3 s: "));
  // What has left its group, and keeps the stream open, stands for a process that waits in the kernel.
  GpuWorld stuck;
  stuck.put("rocm-smi", "setsid sleep 600 & echo $! >" + stuck.folder.path("stuck"));
  bool is_over = false;
  stuck.watch(event::Seconds(0.2)).look([&](const usage::GpuLook&) { is_over = true; });
  REQUIRE(stuck.host.serve([&] { return !stuck.said.empty(); }));
  CHECK(stuck.said[0].starts_with("rocm-smi: SIGKILL has not ended it: "));
  CHECK_FALSE(is_over);
  auto pid = parse_u64(trim(read_file(stuck.folder.path("stuck")).value()));
  REQUIRE(pid);
  ::kill(static_cast<pid_t>(*pid), SIGKILL);
  REQUIRE(stuck.host.serve([&] { return is_over; }));
  CHECK(stuck.said.size() == 1);
  GpuWorld other;
  other.put_nvidia("head -c 3000000 /dev/zero | tr '\\0' 1", ":");
  CHECK_FALSE(other.look().is_complete);
  REQUIRE(other.said.size() == 1);
  CHECK(other.said[0].starts_with("nvidia-smi: its output ends within a line: "));
}

TEST_CASE("where there is no tool nobody is asked, and that is said at once") {
  GpuWorld world;
  kit::Variable nowhere("PATH", world.folder.path(""));
  CHECK_FALSE(world.watch().has_tools());
  REQUIRE(world.said.size() == 1);
  CHECK(world.said[0].starts_with("neither nvidia-smi nor rocm-smi is in the shell's PATH: "));
  CHECK(world.look() == usage::GpuLook());
  CHECK(world.watch().notes() == std::set<std::string>{world.said[0]});
}

TEST_CASE("the end of a watch ends what runs, and calls nobody") {
  GpuWorld world;
  world.put_nvidia("sleep 600", ":");
  bool is_called = false;
  world.watch().look([&](const usage::GpuLook&) { is_called = true; });
  world.own.reset();
  CHECK(world.host.run_loop());
  CHECK_FALSE(is_called);
}
