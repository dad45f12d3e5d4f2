// SPDX-License-Identifier: Apache-2.0
#include "task/spawn.hpp"

#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "event/clock.hpp"
#include "run.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

namespace {

std::vector<const Command*> pointers(const std::vector<Command>& commands) {
  std::vector<const Command*> out;
  for (const Command& each : commands) out.push_back(&each);
  return out;
}

// Of this process: those that run, and zombies.
std::set<pid_t> children() {
  std::ifstream list("/proc/thread-self/children");
  std::set<pid_t> out;
  for (pid_t pid; list >> pid;) out.insert(pid);
  return out;
}

std::vector<Command> truths(std::size_t count) {
  std::vector<Command> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(command({"/bin/true"}));
  return out;
}

// Takes CLONE_PARENT away from what this process starts, with this errno.
void take_away_clone_parent(int code) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_PARENT, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(code)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
    ::_exit(2);
}

// Whether a batch starts, in a process of its own where `before` was called.
template <class Before>
int start_after(const Before& before) {
  pid_t pid = ::fork();
  if (pid == 0) {
    before();
    SpawnPool pool(4);
    bool started = true;
    for (const auto& each : pool.spawn(pointers(truths(40)))) started = started && wait_for(each.value().pid) == 0;
    ::_exit(started && ::waitpid(-1, nullptr, WNOHANG) < 0 ? 0 : 1);
  }
  return wait_for(pid);
}

}  // namespace

TEST_CASE("commands are started from one process, or from several, and each outcome is its command's") {
  unsigned starters = GENERATE(0U, 1U, 2U, 5U, 100U);
  SpawnPool pool(starters);
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<Command> commands;
    for (int i = 0; i < 40; ++i) {
      commands.push_back(i % 7 == 3 ? command({"no-such-command"}) : sh("exit " + std::to_string(i)));
    }
    commands[9].setup.cwd = "/no/such/folder";
    auto outcomes = pool.spawn(pointers(commands));
    REQUIRE(outcomes.size() == 40);
    std::set<pid_t> pids;
    for (int i = 0; i < 40; ++i) {
      const auto& outcome = outcomes[static_cast<std::size_t>(i)];
      REQUIRE(outcome.has_value() == (i % 7 != 3 && i != 9));
      if (!outcome) continue;
      pids.insert(outcome->pid);
      CHECK(WEXITSTATUS(wait_for(outcome->pid)) == i);
    }
    CHECK(pids.size() == 33);
    CHECK(outcomes[3].error().error.message == "no-such-command: No such file or directory (PATH: /usr/bin:/bin)");
    CHECK(outcomes[3].error().exit_code == 127);
    CHECK(outcomes[9].error().error.message ==
          "cannot change to directory /no/such/folder: No such file or directory");
    CHECK(outcomes[9].error().exit_code == 126);
    CHECK(children().empty());
  }
}

TEST_CASE("if it is wanted, each start has its times") {
  SpawnPool pool(3);
  std::vector<Command> commands;
  for (int i = 0; i < 20; ++i) commands.push_back(i == 4 ? command({"no-such-command"}) : sh("exit 0"));
  event::Seconds before = event::clock_now();
  std::vector<SpawnPool::Times> times;
  for (const auto& outcome : pool.spawn(pointers(commands), &times)) {
    if (outcome) wait_for(outcome->pid);
  }
  CHECK(times.size() == commands.size());
  for (const SpawnPool::Times& each : times) {
    CHECK(before <= each.begun);
    CHECK(each.begun <= each.over);
    CHECK(each.over <= event::clock_now());
  }
}

TEST_CASE("a batch that is worth them has starters, which have ended when it is finished") {
  SpawnPool pool(3);
  auto start = [&](std::size_t count) {
    std::vector<Command> commands = truths(count);
    pool.begin(pointers(commands));
    bool had = pool.has_starters();
    for (const auto& each : pool.finish()) CHECK(wait_for(each->pid) == 0);
    CHECK_FALSE(pool.has_begun());
    CHECK(children().empty());
    return had;
  };
  CHECK_FALSE(start(0));
  CHECK_FALSE(start(SpawnPool::kStartsEach - 1));
  CHECK(start(SpawnPool::kStartsEach));
  CHECK(start(100));
}

TEST_CASE("what is started is a child of the thread that begins, with what the command says") {
  SpawnPool pool(3);
  std::vector<Command> commands;
  std::vector<Pipe> pipes;
  for (int i = 0; i < 20; ++i) {
    pipes.push_back(make_pipe(O_CLOEXEC).value());
    commands.push_back(sh("echo $N $PPID; ls /proc/$$/fd; ulimit -n; grep -E 'SigBlk|SigIgn' /proc/self/status"));
    commands.back().env.set("N", std::to_string(i));
    commands.back().setup.fds = {{1, pipes.back().write.get()}, {7, pipes.back().write.get()}};
    commands.back().setup.limits = {{RLIMIT_NOFILE, {static_cast<rlim_t>(100 + i), 4000}}};
  }
  auto old = std::signal(SIGUSR2, SIG_IGN);
  auto outcomes = pool.spawn(pointers(commands));
  std::signal(SIGUSR2, old);
  for (std::size_t i = 0; i < 20; ++i) {
    pipes[i].write.reset();
    CHECK(read_all(pipes[i].read.get()) == std::to_string(i) + ' ' + std::to_string(::getpid()) + "\n0\n1\n2\n7\n" +
                                               std::to_string(100 + i) +
                                               "\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    CHECK(wait_for(outcomes[i].value().pid) == 0);
  }
}

TEST_CASE("where starters can start nothing, the caller starts all by itself") {
  CHECK(start_after([] { take_away_clone_parent(EPERM); }) == 0);
}

TEST_CASE("starters leave room for what they could not start") {
  CHECK(start_after([] { take_away_clone_parent(EAGAIN); }) == 0);
}

TEST_CASE("a batch with an empty command has no starters") {
  SpawnPool pool(3);
  std::vector<Command> commands = truths(20);
  commands[11].argv.clear();
  pool.begin(pointers(commands));
  CHECK_FALSE(pool.has_starters());
  auto outcomes = pool.finish();
  CHECK(outcomes[11].error().error.message == "expected a command, got none");
  for (std::size_t i = 0; i < 20; ++i) CHECK((i == 11 || wait_for(outcomes[i].value().pid) == 0));
}

TEST_CASE("a batch with a traced command has no starters, as it stops in exec for its parent") {
  SpawnPool pool(3);
  std::vector<Command> commands = truths(20);
  commands[5].setup.trace_me = true;
  pool.begin(pointers(commands));
  CHECK_FALSE(pool.has_starters());
  auto outcomes = pool.finish();
  ::kill(outcomes[5].value().pid, SIGCONT);
  for (const auto& each : outcomes) CHECK(wait_for(each.value().pid) == 0);
}

TEST_CASE("of commands that ask for it the caller gets the io file, from starters too") {
  SpawnPool pool(3);
  std::vector<Command> commands;
  for (int i = 0; i < 20; ++i) {
    commands.push_back(sh("exit 0"));
    commands.back().setup.opens_io = i % 2 == 0;
  }
  auto outcomes = pool.spawn(pointers(commands));
  for (int i = 0; i < 20; ++i) {
    const auto& each = outcomes[static_cast<std::size_t>(i)].value();
    CHECK(static_cast<bool>(each.io) == (i % 2 == 0));
    CHECK(wait_for(each.pid) == 0);
  }
}

TEST_CASE("starters take commands into a container") {
  Pipe ready = make_pipe(O_CLOEXEC).value();
  pid_t keeper = ::fork();
  if (keeper == 0) {
    char is_made = ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? 'y' : 'n';
    [[maybe_unused]] ssize_t written = ::write(ready.write.get(), &is_made, 1);
    for (;;) ::pause();
  }
  char is_made = 0;
  REQUIRE(::read(ready.read.get(), &is_made, 1) == 1);
  if (is_made == 'y') {  // not every system lets users make these
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, keeper, 0)));
    auto names = [](pid_t pid) {
      std::string of = "/proc/" + std::to_string(pid) + "/ns/";
      return std::filesystem::read_symlink(of + "user").string() +
             std::filesystem::read_symlink(of + "mnt").string();
    };
    SpawnPool pool(3);
    std::vector<Command> commands;
    for (int i = 0; i < 20; ++i) {
      commands.push_back(command({"/bin/sleep", "1000"}));
      commands.back().setup.container = Container{pidfd.get(), CLONE_NEWUSER | CLONE_NEWNS, {}, ""};
    }
    for (const auto& each : pool.spawn(pointers(commands))) {
      CHECK(names(each.value().pid) == names(keeper));
      ::kill(each->pid, SIGKILL);
      wait_for(each->pid);
    }
  }
  ::kill(keeper, SIGKILL);
  wait_for(keeper);
}

TEST_CASE("if starters are killed, the caller starts what is left") {
  SpawnPool pool(2);
  std::vector<Command> commands = truths(200);
  pool.begin(pointers(commands));
  for (pid_t pid : children()) ::kill(pid, SIGKILL);  // some may be commands
  auto outcomes = pool.finish();
  CHECK(outcomes.size() == 200);
  std::set<pid_t> pids;
  for (const auto& each : outcomes) {
    int status = wait_for(each.value().pid);
    CHECK((status == 0 || WTERMSIG(status) == SIGKILL));
    pids.insert(each->pid);
  }
  CHECK(pids.size() == 200);
  CHECK(children().empty());
}

TEST_CASE("a child that asked for a signal at its parent's death lives as long as the thread that has begun") {
  Pipe ready = make_pipe(O_CLOEXEC).value();
  std::vector<Command> commands;
  for (int i = 0; i < 20; ++i) {
    commands.push_back(sh("echo; exec sleep 1000"));
    commands.back().setup.fds = {{1, ready.write.get()}};
    commands.back().setup.ends_with_parent = true;
  }
  std::vector<SpawnPool::Outcome> outcomes;
  std::thread thread([&] {
    outcomes = SpawnPool(4).spawn(pointers(commands));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      char byte = 0;
      if (::read(ready.read.get(), &byte, 1) != 1) return;
    }
    ::kill(outcomes[3].value().pid, SIGTERM);  // the pool is gone, and it lives
    wait_for(outcomes[3].value().pid);
  });
  thread.join();
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (i != 3) CHECK(WTERMSIG(wait_for(outcomes[i].value().pid)) == SIGKILL);
  }
}

TEST_CASE("a signal for the process group of the caller ends no starter") {
  pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    std::signal(SIGTERM, SIG_IGN);
    SpawnPool pool(3);
    std::vector<Command> commands = truths(100);
    pool.begin(pointers(commands));
    ::kill(0, SIGTERM);
    bool started = true;
    for (const auto& each : pool.finish()) started = each.has_value() && wait_for(each->pid) >= 0 && started;
    ::_exit(started ? 0 : 1);
  }
  CHECK(wait_for(pid) == 0);
}
