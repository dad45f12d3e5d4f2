// SPDX-License-Identifier: Apache-2.0
#include "task/spawn.hpp"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "event/clock.hpp"
#include "run.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

namespace {

// Starts all commands; the results have the commands' order.
std::vector<SpawnPool::Over> start(SpawnPool& pool, const std::vector<Command>& commands) {
  for (const Command& each : commands) pool.begin(each);
  CHECK(pool.under_way() == commands.size());
  std::vector<SpawnPool::Over> out;
  while (pool.under_way() > 0) {
    pool.work();
    for (SpawnPool::Over& each : pool.take()) {
      CHECK(each.command == &commands[out.size()]);
      out.push_back(std::move(each));
    }
  }
  return out;
}

std::size_t threads_of_this_process() {
  std::size_t count = 0;
  DIR* folder = ::opendir("/proc/self/task");
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count;
}

std::vector<Command> truths(std::size_t count) {
  std::vector<Command> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(command({"/bin/true"}));
  return out;
}

// Makes pthread_create(3) fail for this process: clone3(2) as if it were unknown, clone(2) of a thread as if there
// were too many.
void take_away_threads() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 2),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
    ::_exit(2);
}

}  // namespace

TEST_CASE("commands are started from one thread, or from several, and each outcome is its command's") {
  unsigned threads = GENERATE(0U, 1U, 2U, 5U);
  SpawnPool pool(threads);
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<Command> commands;
    for (int i = 0; i < 40; ++i) {
      commands.push_back(i % 7 == 3 ? command({"no-such-command"}) : sh("exit " + std::to_string(i)));
    }
    auto over = start(pool, commands);
    REQUIRE(over.size() == 40);
    std::set<pid_t> pids;
    for (int i = 0; i < 40; ++i) {
      const auto& outcome = over[static_cast<std::size_t>(i)].outcome;
      REQUIRE(outcome.has_value() == (i % 7 != 3));
      if (!outcome) {
        CHECK(outcome.error().error.message == "no-such-command: No such file or directory (PATH: /usr/bin:/bin)");
        CHECK(outcome.error().exit_code == 127);
        continue;
      }
      pids.insert(outcome->pid);
      CHECK(WEXITSTATUS(wait_for(outcome->pid)) == i);
    }
    CHECK(pids.size() == 34);
  }
}

TEST_CASE("if it is wanted, each start has its times") {
  SpawnPool pool(3);
  std::vector<Command> commands;
  for (int i = 0; i < 10; ++i) commands.push_back(i == 4 ? command({"no-such-command"}) : sh("exit 0"));
  event::Seconds before = event::clock_now();
  pool.note_times(true);
  for (const auto& [what, outcome, times] : start(pool, commands)) {
    if (outcome) wait_for(outcome->pid);
    CHECK(before <= times.begun);
    CHECK(times.begun <= times.over);
    CHECK(times.over <= event::clock_now());
  }
}

TEST_CASE("the caller begins others while commands are under way") {
  SpawnPool pool(3);
  const std::vector<Command> commands = truths(100);
  std::size_t begun = 0;
  std::size_t taken = 0;
  while (taken < commands.size()) {
    while (begun < commands.size() && pool.under_way() < 8) pool.begin(commands[begun++]);
    pool.work();
    for (const SpawnPool::Over& each : pool.take()) {
      CHECK(each.command == &commands[taken++]);
      CHECK(wait_for(each.outcome.value().pid) == 0);
    }
  }
  CHECK(pool.take().empty());
  pool.work();  // there is nothing to do
}

TEST_CASE("a signal that has got a handler is known from the next look on") {
  SpawnPool pool(0);
  std::vector<Command> commands;
  commands.push_back(sh("kill -USR1 $$; exit 3"));
  CHECK(WTERMSIG(wait_for(start(pool, commands)[0].outcome.value().pid)) == SIGUSR1);
  auto old = std::signal(SIGUSR1, SIG_IGN);
  pool.look_at_signals();
  CHECK(WTERMSIG(wait_for(start(pool, commands)[0].outcome.value().pid)) == SIGUSR1);
  std::signal(SIGUSR1, old);
}

TEST_CASE("a pool has the threads asked for, from the first time on that is worth them") {
  std::size_t before = threads_of_this_process();
  {
    SpawnPool pool(3);
    auto start_some = [&](std::size_t count) {
      const std::vector<Command> commands = truths(count);
      for (const auto& each : start(pool, commands)) wait_for(each.outcome->pid);
    };
    start_some(0);
    start_some(SpawnPool::kAlone);
    CHECK(threads_of_this_process() == before);
    start_some(SpawnPool::kAlone + 1);
    CHECK(threads_of_this_process() == before + 2);
    start_some(SpawnPool::kAlone + 1);
    CHECK(threads_of_this_process() == before + 2);
  }
  CHECK(threads_of_this_process() == before);
}

TEST_CASE("where there are no more threads to have, the caller starts all by itself") {
  pid_t pid = ::fork();
  if (pid == 0) {
    take_away_threads();
    SpawnPool pool(4);
    const std::vector<Command> commands = truths(SpawnPool::kAlone + 1);
    bool started = true;
    for (const auto& each : start(pool, commands)) started = started && wait_for(each.outcome.value().pid) == 0;
    ::_exit(started && threads_of_this_process() == 1 ? 0 : 1);
  }
  CHECK(wait_for(pid) == 0);
}

TEST_CASE("a child that asked for a signal at its parent's death lives as long as the pool") {
  SpawnPool pool(4);
  Pipe ready = make_pipe(O_CLOEXEC).value();
  std::vector<Command> commands;
  for (int i = 0; i < 8; ++i) {
    commands.push_back(
        command({"/usr/bin/setpriv", "--pdeathsig", "KILL", "/bin/sh", "-c", "echo; exec sleep 1000"}));
    commands.back().setup.fds = {{1, ready.write.get()}};
  }
  auto all = start(pool, commands);
  for (const auto& each : all) REQUIRE(each.outcome.has_value());
  for (int i = 0; i < 8; ++i) {
    char byte = 0;
    REQUIRE(::read(ready.read.get(), &byte, 1) == 1);
  }
  for (const auto& each : all) {
    CHECK(::kill(each.outcome->pid, SIGTERM) == 0);
    CHECK(WTERMSIG(wait_for(each.outcome->pid)) == SIGTERM);
  }
}

TEST_CASE("the threads take no signals") {
  SpawnPool pool(3);
  const std::vector<Command> commands = truths(SpawnPool::kAlone + 1);
  for (const auto& each : start(pool, commands)) wait_for(each.outcome->pid);
  static volatile pid_t taker = 0;
  auto old = std::signal(SIGUSR1, [](int) { taker = ::gettid(); });
  sigset_t usr1;
  ::sigemptyset(&usr1);
  ::sigaddset(&usr1, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
  ::kill(::getpid(), SIGUSR1);
  CHECK(taker == 0);
  ::pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
  CHECK(taker == ::getpid());
  std::signal(SIGUSR1, old);
}
