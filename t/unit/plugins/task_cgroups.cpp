// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/meter.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"

#include "base/file.hpp"
#include "fake_node.hpp"
#include "task/cgroups.hpp"

using namespace nacre;
using plugins::TaskCgroups;

namespace {

// The shell 100 in a cgroup that is a folder: the kernel makes no files in those below.
struct FakeCgroup : kit::NodeFiles {
  FakeCgroup() {
    put("proc/100/cgroup", "0::/job\n");
    put("proc/100/mountinfo", "35 30 0:30 / /cg rw - cgroup2 cgroup2 rw\n");
    put("cg/job/cgroup.procs", "100\n");
  }
  [[nodiscard]] Result<std::unique_ptr<TaskCgroups>> make() const {
    return TaskCgroups::make(100, "f1-0", "memory", root());
  }
};

// A cgroup of the kernel's own for a test, with a process in it that waits; none: this user may not make one.
class RealCgroup {
 public:
  explicit RealCgroup(const char* controller) {
    auto cgroups = task::Cgroups::of_process(::getpid());
    auto own = cgroups ? cgroups->unified_directory() : std::nullopt;
    if (!own) return;
    auto controllers = read_file(*own + "/cgroup.subtree_control");
    std::string before = controllers ? *controllers : "";
    if (before.find(controller) == std::string::npos) {
      std::ofstream(*own + "/cgroup.subtree_control") << "+" << controller << std::flush;
      gives_ = std::string("-") + controller;
      control_ = *own + "/cgroup.subtree_control";
    }
    path_ = *own + "/nacre-unit-" + std::to_string(::getpid());
    if (::mkdir(path_.c_str(), 0755) < 0) return;
    child = add();
    is_there = text("cgroup.procs") == std::to_string(child) + "\n" &&
               text("cgroup.controllers").find(controller) != std::string::npos;
  }
  ~RealCgroup() {
    for (pid_t each : children_) {
      ::kill(each, SIGKILL);
      ::waitpid(each, nullptr, 0);
    }
    ::rmdir(path_.c_str());
    if (!gives_.empty()) std::ofstream(control_) << gives_ << std::flush;
  }
  RealCgroup(const RealCgroup&) = delete;
  RealCgroup& operator=(const RealCgroup&) = delete;
  // A process more, in the cgroup.
  pid_t add() {
    pid_t pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    children_.push_back(pid);
    std::ofstream(path_ + "/cgroup.procs") << pid << std::flush;
    return pid;
  }
  [[nodiscard]] std::string text(const std::string& file) const {
    return read_file(path_ + "/" + file).value_or("?");
  }

  bool is_there = false;
  pid_t child = 0;

 private:
  std::string path_, gives_, control_;
  std::vector<pid_t> children_;
};

}  // namespace

TEST_CASE("a shell in no cgroup of version 2 cannot have cgroups for its tasks") {
  FakeCgroup node;
  node.put("proc/100/mountinfo", "31 20 0:31 / /cg rw - cgroup cgroup rw,memory\n");
  auto made = node.make();
  REQUIRE_FALSE(made);
  CHECK(made.error().message ==
        "cgroup=task: the shell is in no cgroup of version 2 that is mounted here: mount cgroup2, as systemd does, "
        "or "
        "leave the option out");
}

TEST_CASE("a cgroup that is not delegated is named, with the remedy") {
  FakeCgroup node;
  node.remove("cg/job/cgroup.procs");
  auto made = node.make();
  REQUIRE_FALSE(made);
  CHECK(made.error().message ==
        "cgroup=task: " + node.root() + "/cg/job: No such file or directory: " + node.root() +
            "/cg/job is not delegated to user " + std::to_string(::getuid()) +
            ": start the job in a cgroup that is, as by systemd-run --user --scope -p Delegate=yes, or leave out "
            "cgroup=task");
}

TEST_CASE("what a task's cgroup tells, and that nothing of it is left") {
  FakeCgroup node;
  auto made = node.make();
  REQUIRE(made);
  CHECK((*made)->without() == node.root() + "/cg/job has no controller memory");
  CHECK_FALSE((*made)->take(3, 1));
  std::string task = "cg/job/nacre-f1-0/task-3.2";
  node.put(task + "/cpu.stat", "usage_usec 3500000\nuser_usec 3000000\nsystem_usec 500000\n");
  auto plain = (*made)->take(3, 2);
  REQUIRE(plain);
  CHECK(plain->user == Catch::Approx(3));
  CHECK(plain->system == Catch::Approx(0.5));
  CHECK_FALSE(plain->memory_peak);
  CHECK_FALSE(plain->oom_kills);
  node.put(task + "/memory.peak", "4096\n");
  node.put(task + "/memory.events", "low 0\noom 3\noom_kill 2\n");
  auto full = (*made)->take(3, 2);
  REQUIRE(full);
  CHECK(full->memory_peak == 4096U);
  CHECK(full->oom_kills == 2U);
}

TEST_CASE("where a cgroup is to give a controller its processes go below, and come back", "[root]") {
  RealCgroup real("hugetlb");
  if (!real.is_there) {
    std::puts("needs root and a cgroup of version 2 with the controller hugetlb: where a cgroup is to give it");
    return;
  }
  std::string child = std::to_string(real.child) + "\n";
  REQUIRE(real.text("cgroup.procs") == child);
  auto made = TaskCgroups::make(real.child, "f1-0", "hugetlb");
  REQUIRE(made);
  CHECK((*made)->without().empty());
  CHECK(real.text("cgroup.procs").empty());
  CHECK(real.text("nacre-f1-0/shell/cgroup.procs") == child);
  CHECK(real.text("nacre-f1-0/cgroup.subtree_control") == "hugetlb\n");
  pid_t task = ::fork();
  if (task == 0) {
    if (!(*made)->enter(0, 1)) ::_exit(1);
    ::pause();
  }
  REQUIRE(task > 0);
  std::string there;
  while (there.empty() && ::waitpid(task, nullptr, WNOHANG) == 0)
    if (there = real.text("nacre-f1-0/task-0.1/cgroup.procs"); there == "?") there = "";
  CHECK(there == std::to_string(task) + "\n");
  CHECK((*made)->take(0, 1));  // it still runs: it is killed as all goes
  made->reset();
  int status = 0;
  REQUIRE(::waitpid(task, &status, 0) == task);
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(real.text("cgroup.procs") == child);
  CHECK(real.text("nacre-f1-0/cgroup.procs") == "?");
}

TEST_CASE("processes of others in the shell's cgroup are left there, and named", "[root]") {
  RealCgroup real("hugetlb");
  if (!real.is_there) {
    std::puts("needs root and a cgroup of version 2 with the controller hugetlb: processes of others");
    return;
  }
  pid_t other = real.add();
  auto made = TaskCgroups::make(real.child, "f1-0", "hugetlb");
  REQUIRE(made);
  CHECK((*made)->without().find("has processes of others, such as " + std::to_string(other) + " (") !=
        std::string::npos);
  CHECK(real.text("nacre-f1-0/shell/cgroup.procs") == "?");
}
