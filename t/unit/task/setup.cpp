// SPDX-License-Identifier: Apache-2.0
//
// What the child is before it executes: descriptors, signals, limits, cpus, directory.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "run.hpp"
#include "task/cpus.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

namespace {

// Prints the numbers of the open descriptors above 2, without opening any. The test's own are below 64, and 700.
constexpr const char* kListOpen =
    "i=3; while [ $i -lt 64 ]; do [ -e /proc/self/fd/$i ] && echo $i; i=$((i+1)); done; "
    "[ -e /proc/self/fd/700 ] && echo 700; true";

UniqueFd file_with(const Folder& folder, const std::string& name) {
  std::string path = folder.path() + "/" + name;
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

// Dup of `fd` at just this number, without FD_CLOEXEC.
UniqueFd leaked_at(int fd, int number) {
  REQUIRE(::fcntl(number, F_GETFD) == -1);
  return UniqueFd(::dup2(fd, number));
}

std::string own_status() {
  UniqueFd fd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  return read_all(fd.get());
}

// Makes close_range(2) fail as on a kernel that lacks it, for this process and its children.
void take_away_close_range() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
    ::_exit(2);
}

// Runs `body` in a forked copy of this process, and returns its result.
template <typename Body>
std::string in_forked_copy(Body body) {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  pid_t pid = ::fork();
  if (pid == 0) {
    std::string text = body();
    [[maybe_unused]] ssize_t written = ::write(pipe.write.get(), text.data(), text.size());
    ::_exit(0);
  }
  pipe.write.reset();
  std::string text = read_all(pipe.read.get());
  CHECK(wait_for(pid) == 0);
  return text;
}

}  // namespace

// ---- Descriptors -------------------------------------------------------------

TEST_CASE("no descriptor leaks into a task, close-on-exec or not") {
  Folder folder;
  folder.file("f", "");
  UniqueFd file = file_with(folder, "f");
  UniqueFd far = leaked_at(file.get(), 700);
  UniqueFd near(::fcntl(file.get(), F_DUPFD, 3));
  CHECK(run(sh(kListOpen)).out.empty());
  CHECK(run(sh(kListOpen), [] { return true; }).out.empty());
}

TEST_CASE("no descriptor leaks where there is no close_range") {
  Folder folder;
  folder.file("f", "");
  UniqueFd file = file_with(folder, "f");
  UniqueFd far = leaked_at(file.get(), 700);
  CHECK(in_forked_copy([&] {
          take_away_close_range();
          Command what = sh(kListOpen);
          what.setup.fds = {{5, file.get()}, {9, -1}};
          return run(what).out;
        }) == "5\n9\n");
}

TEST_CASE("descriptors go to the numbers asked for, and only there") {
  Folder folder;
  folder.file("a", "A");
  folder.file("b", "B");
  UniqueFd a = file_with(folder, "a");
  UniqueFd b = file_with(folder, "b");
  Command what = sh(std::string(kListOpen) + "; cat <&0; cat <&5; cat /proc/self/fd/40");
  what.setup.fds = {{5, a.get()}, {0, b.get()}, {40, -1}};
  CHECK(run(what).out == "5\n40\nBA");
}

TEST_CASE("two descriptors may change places") {
  Folder folder;
  folder.file("a", "A");
  folder.file("b", "B");
  UniqueFd a = file_with(folder, "a");
  UniqueFd b = file_with(folder, "b");
  UniqueFd at20 = leaked_at(a.get(), 20);
  UniqueFd at21 = leaked_at(b.get(), 21);
  Command what = sh("cat /proc/self/fd/21 /proc/self/fd/20");
  what.setup.fds = {{20, 21}, {21, 20}};
  CHECK(run(what).out == "AB");
  what.setup.fds = {{20, 20}, {21, 20}, {22, 21}};
  what.argv[2] = "cat /proc/self/fd/20 /proc/self/fd/21 /proc/self/fd/22";
  CHECK(run(what).out == "AAB");
}

TEST_CASE("stdin and stdout may change places") {
  CHECK(in_forked_copy([] {
          Pipe in = make_pipe(O_CLOEXEC).value();
          Pipe out = make_pipe(O_CLOEXEC).value();
          ::dup2(out.write.get(), 0);
          ::dup2(in.read.get(), 1);
          Command what = sh("cat");
          what.setup.fds = {{0, 1}, {1, 0}};
          auto spawned = Spawner().spawn(what);
          ::close(0);
          out.write.reset();
          [[maybe_unused]] ssize_t written = ::write(in.write.get(), "through", 7);
          in.write.reset();
          std::string text = read_all(out.read.get());
          wait_for(spawned->pid);
          return text;
        }) == "through");
}

TEST_CASE("a descriptor that keeps its number is kept open") {
  Folder folder;
  folder.file("a", "A");
  UniqueFd a = file_with(folder, "a");
  Command what = sh("cat /proc/self/fd/" + std::to_string(a.get()));
  what.setup.fds = {{a.get(), a.get()}};
  CHECK(run(what).out == "A");
  CHECK(::fcntl(a.get(), F_GETFD) == FD_CLOEXEC);
}

TEST_CASE("without a source it is /dev/null, to read and to write") {
  Command what = sh("cat; echo lost >&2; readlink /proc/self/fd/0 /proc/self/fd/2");
  what.setup.fds = {{0, -1}, {2, -1}};
  CHECK(run(what).out == "/dev/null\n/dev/null\n");
}

TEST_CASE("a descriptor that is not open is an error") {
  Command what = sh("true");
  what.setup.fds = {{7, 999}};
  Outcome outcome = run(what);
  CHECK(outcome.error == "cannot set up descriptor 7: Bad file descriptor");
  CHECK(outcome.exit_code == 126);
}

// ---- Signals -----------------------------------------------------------------

TEST_CASE("a task starts with no signal blocked, ignored or caught; the parent keeps its own") {
  auto old_pipe = std::signal(SIGPIPE, SIG_IGN);
  auto old_rt = std::signal(SIGRTMIN + 3, SIG_IGN);
  auto old_term = std::signal(SIGTERM, [](int) {});
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR2);
  ::sigaddset(&blocked, SIGCHLD);
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  std::string mine = own_status();

  bool hooked = GENERATE(false, true);
  Spawner::ChildHook hook;
  if (hooked) hook = [] { return true; };
  std::string status = run(command({"/bin/cat", "/proc/self/status"}), hook).out;
  CHECK(field(status, "SigBlk") == "0000000000000000");
  CHECK(field(status, "SigIgn") == "0000000000000000");
  CHECK(field(status, "SigCgt") == "0000000000000000");
  for (const char* name : {"SigBlk", "SigIgn", "SigCgt"}) CHECK(field(own_status(), name) == field(mine, name));

  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::signal(SIGPIPE, old_pipe);
  std::signal(SIGRTMIN + 3, old_rt);
  std::signal(SIGTERM, old_term);
}

// The C library's own signals, which sigaction(3) does not touch: a manager may leave them ignored.
TEST_CASE("no signal is ignored that the C library keeps for itself") {
  bool hooked = GENERATE(false, true);
  std::string status = in_forked_copy([&] {
    const unsigned long ignored[8] = {1};  // SIG_IGN, in the kernel's struct sigaction
    for (int signum : {32, 33}) ::syscall(SYS_rt_sigaction, signum, ignored, nullptr, NSIG / 8);
    if (field(own_status(), "SigIgn").substr(7, 1) != "1") return std::string("not ignored to begin with");
    Spawner::ChildHook hook;
    if (hooked) hook = [] { return true; };
    return run(command({"/bin/cat", "/proc/self/status"}), hook).out;
  });
  CHECK(field(status, "SigIgn") == "0000000000000000");
}

TEST_CASE("a task has a process group of its own, or its parent's") {
  Command what = sh("cut -d' ' -f5 /proc/$$/stat");
  Outcome outcome = run(what);
  CHECK(outcome.out == std::to_string(outcome.pid) + "\n");
  what.setup.new_process_group = false;
  CHECK(run(what).out == std::to_string(::getpgrp()) + "\n");
}

// ---- Limits, cpus, OOM score, directory ----------------------------------------

TEST_CASE("limits are the task's, and low ones do not hinder its start") {
  rlimit mine{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &mine) == 0);
  Command what = sh("ulimit -n; ulimit -c; ulimit -s; ulimit -H -n");
  what.setup.limits = {{RLIMIT_NOFILE, {10, 11}}, {RLIMIT_CORE, {0, 0}}, {RLIMIT_STACK, {1 << 20, RLIM_INFINITY}}};
  what.setup.settings.of<OomScore>() = "500";
  what.setup.fds = {{0, -1}, {30, -1}};
  CHECK(run(what).out == "10\n0\n1024\n11\n");
  rlimit after{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &after) == 0);
  CHECK(after.rlim_cur == mine.rlim_cur);
}

TEST_CASE("a limit that cannot be set is named") {
  Command what = sh("true");
  what.setup.limits = {{RLIMIT_NOFILE, {100, 10}}};
  Outcome outcome = run(what);
  CHECK(outcome.error == "cannot set RLIMIT_NOFILE: Invalid argument");
  CHECK(outcome.in_child);
  CHECK(outcome.exit_code == 126);
  what.setup.limits = {{RLIMIT_CORE, {0, 0}}, {99, {0, 0}}};
  CHECK(run(what).error == "cannot set resource limit 99: Invalid argument");
}

TEST_CASE("a task runs on its cpus") {
  cpu_set_t mine;
  REQUIRE(::sched_getaffinity(0, sizeof mine, &mine) == 0);
  std::size_t cpu = CPU_SETSIZE - 1;
  while (!CPU_ISSET(cpu, &mine)) --cpu;
  Command what = command({"/bin/cat", "/proc/self/status"});
  what.setup.cpus.assign(cpu / 64 + 1, 0);
  what.setup.cpus[cpu / 64] = 1UL << (cpu % 64);
  CHECK(field(run(what).out, "Cpus_allowed_list") == std::to_string(cpu));
  what.setup.cpus.assign(1024, 0);
  what.setup.cpus.back() = 1;
  CHECK(run(what).error == "cannot bind to cpus: Invalid argument");
}

TEST_CASE("a task has its memory policy, and one that the kernel refuses is named") {
  using value::Idset;
  Command what = command({"/bin/cat", "/proc/self/numa_maps"});
  what.setup.memory = memory_policy("interleave", Idset::range(999, 999));
  CHECK(run(what).error ==
        "cannot set the memory policy to interleave 999: Invalid argument (is it one of Mems_allowed_list in "
        "/proc/self/status?)");
  if (::access("/proc/self/numa_maps", R_OK) != 0) return;  // a kernel without NUMA
  for (const auto& [name, shown] : {std::pair("bind", " bind:0 "), std::pair("prefer", " prefer:0 "),
                                    std::pair("interleave", " interleave:0 ")}) {
    what.setup.memory = memory_policy(name, Idset::range(0, 0));
    CHECK(run(what).out.find(shown) != std::string::npos);
  }
}

TEST_CASE("memory policies by their names; to prefer several nodes is another one") {
  using value::Idset;
  CHECK_FALSE(memory_policy("closest", Idset::range(0, 0)));
  CHECK(memory_policy_text(*memory_policy("bind", Idset::range(0, 70))) == "bind 0-70");
  CHECK(memory_policy("prefer", Idset::range(1, 1))->mode != memory_policy("prefer", Idset::range(0, 1))->mode);
  CHECK(memory_policy_text(*memory_policy("prefer", Idset::range(0, 1))) == "prefer 0-1");
}

TEST_CASE("a task may lead a session, whatever its process group was to be") {
  Command what = sh("read -r pid name state parent group session rest </proc/$$/stat; echo $pid $group $session");
  what.setup.new_session = true;
  what.setup.new_process_group = GENERATE(true, false);
  Outcome outcome = run(what);
  CHECK(outcome.out == fmt::format("{0} {0} {0}\n", outcome.pid));
}

TEST_CASE("a task starts in its directory") {
  Command what = command({"/bin/pwd"});
  what.setup.cwd = "/usr";
  CHECK(run(what).out == "/usr\n");
  what.setup.cwd = "/no/such";
  Outcome outcome = run(what);
  CHECK(outcome.error == "cannot change to directory /no/such: No such file or directory");
  CHECK(outcome.exit_code == 126);
}

// ---- Running out ---------------------------------------------------------------

TEST_CASE("no more processes is an error before there is a child, and names the limits") {
  constexpr uid_t kNobody = 65534;
  bool hooked = GENERATE(false, true);
  CHECK(in_forked_copy([&]() -> std::string {
          if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) < 0) return "setresuid";
          rlimit one{1, 1};
          // The second process is one too many, even if no other runs as this user.
          if (::setrlimit(RLIMIT_NPROC, &one) < 0) return "setrlimit";
          Spawner::ChildHook hook;
          if (hooked) hook = [] { return true; };
          auto spawned = Spawner().spawn(sh("true"), hook);
          if (spawned) return "started";
          return (spawned.error().in_child ? "in the child: " : "") + spawned.error().error.message;
        }) ==
        "cannot start more processes: Resource temporarily unavailable (limit: ulimit -u 1, or the cgroup's "
        "pids.max)");
}

TEST_CASE("no more descriptors is an error before there is a child") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  auto spawned = Spawner().spawn(sh("true"), [] { return true; });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(spawned);
  CHECK_FALSE(spawned.error().in_child);
  CHECK(spawned.error().error.message == "pipe (raise the limit with ulimit -n): Too many open files");
}
