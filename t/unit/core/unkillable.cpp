// SPDX-License-Identifier: Apache-2.0
#include "core/shutdown.hpp"

#include <filesystem>
#include <fstream>

#include "folder.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

// Stands in for the files of process 77 in /proc.
struct Proc {
  void thread(pid_t id, char state, const std::string& where, const std::string& call, const std::string& pending) {
    std::filesystem::path at = folder.path(fmt::format("proc/77/task/{}", id));
    std::filesystem::create_directories(at / "fd");
    auto write = [&](const char* name, const std::string& text) { std::ofstream(at / name) << text; };
    write("stat", fmt::format("{} (a) b) {} 1 77 77 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 500 1000 6 0\n", id, state));
    write("wchan", where);
    write("syscall", call);
    write("status", fmt::format("Name:\ta\nSigPnd:\t{}\nShdPnd:\t0000000000000000\n", pending));
    std::filesystem::create_symlink("/mnt/x\ny", at / "fd/3");
  }
  [[nodiscard]] std::string wait() const { return KernelWait::of(77, folder.path("")).str(); }
  [[nodiscard]] bool killed() const { return is_killed(77, folder.path("")); }

  TemporaryFolder folder;
};

constexpr const char* kNone = "0000000000000000";
constexpr const char* kKill = "0000000000000100";

}  // namespace

TEST_CASE("where the kernel keeps a process: the thread in state D, its place, and the file of its call") {
  Proc proc;
  proc.thread(77, 'Z', "0", "0 0x3 0x0", kNone);
  CHECK(proc.wait() == "state Z, /mnt/x\\x0ay");
  CHECK(!proc.killed());
  proc.thread(101, 'S', "futex_wait", "running\n", kNone);
  proc.thread(99, 'D', "request_wait_answer", "0 0x3 0x7ffc 0x10\n", kKill);
  CHECK(proc.wait() == "state D in request_wait_answer, /mnt/x\\x0ay");
  CHECK(proc.killed());
}

TEST_CASE("where the kernel keeps a process: what is not known is left out") {
  Proc proc;
  CHECK(proc.wait() == "state ?");
  CHECK(!proc.killed());
  const char* call = GENERATE("running\n", "0 0x9 0x0", "202 0x3 0x0", "-1 0x7f 0x1", "");
  proc.thread(77, 'D', "0", call, kNone);
  CHECK(proc.wait() == "state D");
}
