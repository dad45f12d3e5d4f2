// SPDX-License-Identifier: Apache-2.0
#include "event/children.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "catch.hpp"

#include "event/clock.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::event;  // NOLINT

namespace {

pid_t start(const std::function<int()>& body) {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  REQUIRE(pid > 0);
  return pid;
}

[[noreturn]] void wait_forever() {
  for (;;) ::pause();
}

void end(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

// Blocks until `pid` has ended, and leaves it to be reaped.
void wait_for_end(pid_t pid) {
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
}

pid_t read_pid(int fd) {
  pid_t pid = 0;
  REQUIRE(::read(fd, &pid, sizeof pid) == sizeof pid);
  return pid;
}

void write_pid(int fd, pid_t pid) { [[maybe_unused]] ssize_t written = ::write(fd, &pid, sizeof pid); }

struct Fixture {
  std::unique_ptr<Loop> loop = Loop::create().value();
  std::vector<ChildExit> orphans;
  std::unique_ptr<Children> children =
      Children::create(*loop, [this](const ChildExit& exit) { orphans.push_back(exit); }).value();
};

}  // namespace

TEST_CASE("each child's end is reported to its own watcher") {
  Fixture f;
  int exited = -1;
  int killed = -1;
  pid_t a = start([] { return 3; });
  pid_t b = start([]() -> int { wait_forever(); });
  f.children->watch(a, [&](const ChildExit& exit) {
    CHECK(exit.pid == a);
    CHECK(exit.usage.ru_maxrss > 0);
    exited = exit.status;
    ::kill(b, SIGKILL);
  });
  f.children->watch(b, [&](const ChildExit& exit) { killed = exit.status; });
  CHECK(f.children->watched() == 2);
  f.loop->run_until([&] { return killed >= 0; });
  CHECK(WEXITSTATUS(exited) == 3);
  CHECK((WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL));
  CHECK(f.children->watched() == 0);
  CHECK(f.orphans.empty());
}

TEST_CASE("ends that come in one heap are all reported, once") {
  Fixture f;
  constexpr int kChildren = 100;
  std::vector<int> ends(kChildren, 0);
  int sum = 0;
  for (int i = 0; i < kChildren; ++i) {
    pid_t pid = start([i] { return i; });
    f.children->watch(pid, [&, i](const ChildExit& exit) {
      ++ends[static_cast<std::size_t>(i)];
      sum += WEXITSTATUS(exit.status) == i ? 1 : 0;
    });
    wait_for_end(pid);
  }
  f.loop->run_until([&] { return f.children->watched() == 0; });
  CHECK(ends == std::vector<int>(kChildren, 1));
  CHECK(sum == kChildren);
  CHECK(f.orphans.empty());
}

TEST_CASE("ends that are expected come in the order of the deaths, not of the starts") {
  Fixture f;
  bool at_signals = GENERATE(false, true);
  if (at_signals) f.children->note_deaths_at_once();
  std::vector<pid_t> pids;
  std::vector<pid_t> ends;
  std::vector<Death> deaths;
  for (int i = 0; i < 5; ++i) pids.push_back(start([]() -> int { wait_forever(); }));
  for (pid_t pid : pids) {
    f.children->expect_death(pid);
    f.children->watch(pid, [&](const ChildExit& exit) {
      ends.push_back(exit.pid);
      deaths.push_back(exit.death);
    });
  }
  const std::vector<pid_t> killed{pids[3], pids[0], pids[4], pids[2], pids[1]};
  for (pid_t pid : killed) {
    ::kill(pid, SIGKILL);
    wait_for_end(pid);
  }
  f.loop->run_until([&] { return ends.size() == pids.size(); });
  CHECK(ends == killed);
  for (std::size_t i = 1; i < deaths.size(); ++i) {
    CHECK(deaths[i - 1].order < deaths[i].order);
    CHECK(deaths[i - 1].at <= deaths[i].at);
  }
}

TEST_CASE("when a child has died is known although the loop does not turn") {
  Fixture f;
  f.children->note_deaths_at_once();
  pid_t pid = start([]() -> int { wait_forever(); });
  f.children->expect_death(pid);
  std::optional<Death> death;
  f.children->watch(pid, [&](const ChildExit& exit) { death = exit.death; });
  Seconds before = clock_now();
  ::kill(pid, SIGKILL);
  wait_for_end(pid);
  constexpr Seconds kBusy{3};  // far longer than a signal takes to be delivered
  while (clock_now() < before + kBusy) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  f.loop->run_until([&] { return death.has_value(); });
  CHECK(death->at >= before);
  CHECK(death->at < before + kBusy);
}

TEST_CASE("reap works without a signal and without the loop") {
  Fixture f;
  pid_t pid = start([] { return 9; });
  int status = -1;
  f.children->watch(pid, [&](const ChildExit& exit) { status = exit.status; });
  wait_for_end(pid);
  f.children->reap();
  CHECK(WEXITSTATUS(status) == 9);
  f.children->reap();
  f.loop->poll();
}

TEST_CASE("a callback may start and watch another child") {
  Fixture f;
  std::vector<int> ends;
  f.children->watch(start([] { return 1; }), [&](const ChildExit& first) {
    ends.push_back(WEXITSTATUS(first.status));
    f.children->watch(start([] { return 2; }),
                      [&](const ChildExit& second) { ends.push_back(WEXITSTATUS(second.status)); });
  });
  f.loop->run_until([&] { return ends.size() == 2; });
  CHECK(ends == std::vector<int>{1, 2});
}

TEST_CASE("a traced child that stops has not ended") {
  Fixture f;
  pid_t pid = start([] {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    return 5;
  });
  std::vector<int> ends;
  f.children->watch(pid, [&](const ChildExit& exit) { ends.push_back(exit.status); });
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT) == 0);
  f.children->reap();
  CHECK(ends.empty());
  CHECK(f.children->watched() == 1);
  REQUIRE(::ptrace(PTRACE_CONT, pid, nullptr, nullptr) == 0);
  f.loop->run_until([&] { return !ends.empty(); });
  REQUIRE(ends.size() == 1);
  CHECK(WEXITSTATUS(ends[0]) == 5);
}

TEST_CASE("a child that is given up has ended for who watches it, and its real end is an orphan's") {
  Fixture f;
  pid_t child = start([]() -> int { wait_forever(); });
  std::vector<ChildExit> ends;
  f.children->watch(child, [&](const ChildExit& end) { ends.push_back(end); });
  CHECK(f.children->watched_pids() == std::vector<pid_t>{child});
  f.children->give_up(child);
  f.children->give_up(child);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].pid == child);
  CHECK(ends[0].given_up);
  CHECK((WIFSIGNALED(ends[0].status) && WTERMSIG(ends[0].status) == SIGKILL));
  CHECK(!f.children->watches(child));
  ::kill(child, SIGKILL);
  wait_for_end(child);
  f.children->reap();
  REQUIRE(f.orphans.size() == 1);
  CHECK((f.orphans[0].pid == child && !f.orphans[0].given_up));
  CHECK(ends.size() == 1);
}

TEST_CASE("watched children, and all below them, are set apart from the other descendants") {
  Fixture f;
  auto told = make_pipe(O_CLOEXEC).value();
  pid_t other = start([]() -> int { wait_forever(); });
  pid_t child = start([&]() -> int {
    pid_t below = start([]() -> int { wait_forever(); });
    write_pid(told.write.get(), below);
    wait_forever();
  });
  pid_t below = read_pid(told.read.get());
  f.children->watch(child, [](const ChildExit&) {});
  CHECK(Children::descendants().size() == 3);
  CHECK(f.children->unwatched_descendants() == std::vector<pid_t>{other});
  f.children->forget(child);
  CHECK(f.children->unwatched_descendants().size() == 3);
  ::kill(below, SIGKILL);
  end(child);
  end(other);
}

TEST_CASE("a subreaper is told of orphans that it never started") {
  REQUIRE(Children::become_subreaper());
  Fixture f;
  auto go = make_pipe(O_CLOEXEC).value();
  auto told = make_pipe(O_CLOEXEC).value();
  bool child_ended = false;
  pid_t child = start([&] {
    pid_t orphan = ::fork();
    if (orphan == 0) {
      go.write.reset();
      char byte = 0;
      [[maybe_unused]] ssize_t got = ::read(go.read.get(), &byte, 1);
      ::_exit(7);
    }
    write_pid(told.write.get(), orphan);
    return 0;
  });
  f.children->watch(child, [&](const ChildExit&) { child_ended = true; });
  pid_t orphan = read_pid(told.read.get());
  f.loop->run_until([&] { return child_ended; });
  CHECK(f.orphans.empty());
  CHECK(Children::descendants() == std::vector<pid_t>{orphan});
  go.write.reset();
  Timer timer = Timer::create(*f.loop, [] {}).value();
  timer.start(Seconds(60));  // orphans do not keep the loop running
  f.loop->run_until([&] { return !f.orphans.empty(); });
  REQUIRE(f.orphans.size() == 1);
  CHECK(f.orphans[0].pid == orphan);
  CHECK(WEXITSTATUS(f.orphans[0].status) == 7);
  CHECK(Children::descendants().empty());
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST_CASE("descendants are found by both ways, children before their parents, zombies not at all") {
  Lookup lookup = GENERATE(Lookup::listed, Lookup::scan);
  if (lookup == Lookup::listed && best_lookup() == Lookup::scan) return;  // this kernel does not list children
  auto told = make_pipe(O_CLOEXEC).value();
  pid_t zombie = start([] { return 0; });
  wait_for_end(zombie);
  pid_t child = start([&]() -> int {
    pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::prctl(PR_SET_NAME, "a) Z 1 (b");  // the name, which stands in parentheses, may look like their end
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      write_pid(told.write.get(), ::getpid());
      wait_forever();
    }
    wait_forever();
  });
  pid_t grandchild = read_pid(told.read.get());
  CHECK(descendants_of(::getpid(), lookup) == std::vector<pid_t>{grandchild, child});
  CHECK(descendants_of(child, lookup) == std::vector<pid_t>{grandchild});
  CHECK(descendants_of(::getpid(), lookup, {child}).empty());
  CHECK(descendants_of(::getpid(), lookup, {grandchild}) == std::vector<pid_t>{child});
  CHECK(descendants_of(grandchild, lookup).empty());
  CHECK(descendants_of(zombie, lookup).empty());
  // No descriptor is left.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  auto found = descendants_of(::getpid(), lookup);
  auto others = descendants_of(::getpid(), lookup, {grandchild});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(found == std::vector<pid_t>{grandchild, child});
  CHECK(others == std::vector<pid_t>{child});
  end(child);
  end(zombie);
}

TEST_CASE("a child that a thread started is a descendant, and so is one whose first thread has ended") {
  auto told = make_pipe(O_CLOEXEC).value();
  pid_t child = 0;
  std::thread thread([&] {
    child = start([&]() -> int {
      std::thread other([&, first = ::gettid()] {
        std::string path = "/proc/self/task/" + std::to_string(first) + "/stat";
        for (char text[512] = {}; std::string(text).find(") Z ") == std::string::npos;) {
          UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
          [[maybe_unused]] ssize_t got = ::read(fd.get(), text, sizeof text - 1);
        }
        write_pid(told.write.get(), ::getpid());
        wait_forever();
      });
      other.detach();
      ::pthread_exit(nullptr);
    });
    read_pid(told.read.get());
    CHECK(descendants_of(::getpid(), best_lookup()) == std::vector<pid_t>{child});
    CHECK(descendants_of(::getpid(), Lookup::scan) == std::vector<pid_t>{child});
  });
  thread.join();
  end(child);
}

TEST_CASE("a child that has ended is looked at before it is reaped, and each once") {
  auto loop = Loop::create().value();
  std::vector<std::string> seen;
  auto children = Children::create(*loop, [&](const ChildExit& end) {
                    seen.push_back("orphan " + std::to_string(end.pid));
                  }).value();
  children->look_before_reap([&](pid_t pid) {
    std::string path = "/proc/" + std::to_string(pid) + "/io";
    seen.push_back((::access(path.c_str(), F_OK) == 0 ? "there " : "gone ") + std::to_string(pid));
  });
  pid_t first = start([] { return 3; });
  pid_t second = start([] { return 4; });
  std::vector<int> codes;
  for (pid_t pid : {first, second})
    children->watch(pid, [&](const ChildExit& end) { codes.push_back(WEXITSTATUS(end.status)); });
  loop->run();
  std::sort(codes.begin(), codes.end());
  CHECK(codes == std::vector<int>{3, 4});
  std::sort(seen.begin(), seen.end());
  std::vector<std::string> expected{"there " + std::to_string(first), "there " + std::to_string(second)};
  std::sort(expected.begin(), expected.end());
  CHECK(seen == expected);
  children->look_before_reap(nullptr);
  pid_t third = start([] { return 0; });
  children->watch(third, [](const ChildExit&) {});
  loop->run();
  CHECK(seen == expected);
}

TEST_CASE("while strangers are kept only watched children are reaped, and the others afterwards") {
  Fixture f;
  int watched = 0;
  auto count = [&](const ChildExit&) { ++watched; };
  const pid_t stranger = start([] { return 0; });
  const pid_t expected = start([] { return 0; });
  const pid_t other = start([] { return 0; });
  const pid_t runs = start([]() -> int { wait_forever(); });
  f.children->expect_death(expected);
  for (pid_t pid : {expected, other, runs}) f.children->watch(pid, count);
  for (pid_t pid : {stranger, expected, other}) wait_for_end(pid);
  {
    const Children::StrangersKept kept(*f.children);
    const Children::StrangersKept longer(*f.children);
    f.children->reap();
    CHECK(watched == 2);
    CHECK(f.orphans.empty());
    wait_for_end(stranger);  // the child is there, and its starter can wait for it
  }
  f.loop->poll();
  REQUIRE(f.orphans.size() == 1);
  CHECK(f.orphans[0].pid == stranger);
  CHECK(watched == 2);
  end(runs);
}

TEST_CASE("what becomes of a process group once its leader was reaped is reported") {
  REQUIRE(Children::become_subreaper());
  auto loop = Loop::create().value();
  auto children = Children::create(*loop, {}).value();
  std::vector<std::pair<pid_t, Children::GroupState>> told;
  Children::Guarding guarding;
  guarding.group = [&](pid_t leader, Children::GroupState state) { told.emplace_back(leader, state); };
  children->set_guard(std::move(guarding));
  for (bool leaves : {false, true}) {
    told.clear();
    pid_t leader = ::fork();
    if (leader == 0) {
      ::setpgid(0, 0);
      if (leaves && ::fork() == 0) ::pause();
      ::_exit(0);
    }
    ::setpgid(leader, leader);
    children->watch(leader, [&](const ChildExit&) { loop->stop(); });
    children->guard(leader);
    loop->run();
    using State = Children::GroupState;
    REQUIRE(told.size() == 2);
    CHECK(told[0] == std::pair(leader, State::led));
    CHECK(told[1] == std::pair(leader, leaves ? State::left : State::over));
    if (leaves) ::kill(-leader, SIGKILL);
  }
  children->set_guard({});
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}
