// SPDX-License-Identifier: Apache-2.0
#include "event/loop.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"

#include "base/file.hpp"
#include "base/unique_fd.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::event;  // NOLINT

namespace {

std::unique_ptr<Loop> make_loop() { return Loop::create().value(); }

std::string threads_of_this_process() {
  std::string status = read_file("/proc/self/status").value();
  std::size_t at = status.find("\nThreads:");
  return status.substr(at + 1, status.find('\n', at + 1) - at - 1);
}

// How a forked copy of this process ends that runs `body`, with its stderr closed.
template <typename Body>
int status_of_child(Body body) {
  pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);
    body();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a loop with nothing to wait for ends at once") {
  auto loop = make_loop();
  loop->run();
  loop->run_until([] { return false; });
  loop->poll();
  CHECK(loop->now() > 0);
}

TEST_CASE("a watcher may be destroyed in its own callback") {
  auto loop = make_loop();
  std::string text = "long enough to live on the heap, and to be freed with the callback";
  std::string seen;
  std::optional<Timer> timer;
  timer = Timer::create(*loop, [&, text] {
            timer.reset();
            seen = text;
          }).value();
  timer->start(Seconds(0), Seconds(0.001));

  std::optional<SignalWatcher> watcher;
  watcher = SignalWatcher::create(*loop, SIGUSR1, [&, text](int) {
              watcher.reset();
              seen += text;
            }).value();
  ::raise(SIGUSR1);
  loop->run();
  CHECK(seen == text + text);
}

TEST_CASE("a watcher that moves keeps its callback, and replaces the one it moves over") {
  auto loop = make_loop();
  std::string fired;
  auto a = Timer::create(*loop, [&] { fired += "a"; }).value();
  auto b = Timer::create(*loop, [&] { fired += "b"; }).value();
  a.start(Seconds(0));
  b.start(Seconds(0));
  a = std::move(b);
  Timer c = std::move(a);
  loop->run();
  CHECK(fired == "b");
}

TEST_CASE("stop ends run after this round, and only that run") {
  auto loop = make_loop();
  int fired = 0;
  auto timer = Timer::create(*loop, [&] {
                 ++fired;
                 loop->stop();
               }).value();
  timer.start(Seconds(0), Seconds(0.001));
  loop->run();
  CHECK(fired == 1);
  loop->run();
  CHECK(fired == 2);
}

TEST_CASE("run_until returns when its condition is met, and not for stop") {
  auto loop = make_loop();
  int fired = 0;
  auto timer = Timer::create(*loop, [&] {
                 ++fired;
                 loop->stop();
               }).value();
  timer.start(Seconds(0), Seconds(0.001));
  loop->run_until([&] { return fired == 5; });
  CHECK(fired == 5);
}

TEST_CASE("run_until asks once more before it waits, and takes a yes for an answer") {
  auto loop = make_loop();
  bool fired = false;
  auto timer = Timer::create(*loop, [&] { fired = true; }).value();
  auto far = Timer::create(*loop, [] {}).value();
  far.start(Seconds(3600));
  timer.start(Seconds(0));
  loop->run_until([&] { return fired; });
  CHECK(fired);
  int asked = 0;
  loop->run_until([&] { return ++asked == 2; });
  CHECK(asked == 2);
}

TEST_CASE("run_until returns when nothing is left, met or not") {
  auto loop = make_loop();
  int fired = 0;
  auto timer = Timer::create(*loop, [&] { ++fired; }).value();
  timer.start(Seconds(0.001));
  loop->run_until([] { return false; });
  CHECK(fired == 1);
}

TEST_CASE("poll does not wait") {
  auto loop = make_loop();
  bool fired = false;
  auto timer = Timer::create(*loop, [&] { fired = true; }).value();
  timer.start(Seconds(3600));
  loop->poll();
  CHECK_FALSE(fired);
}

TEST_CASE("signals reach every watcher of theirs") {
  auto loop = make_loop();
  std::vector<int> first;
  std::vector<int> second;
  auto a = SignalWatcher::create(*loop, SIGUSR1, [&](int signum) { first.push_back(signum); }).value();
  auto b = SignalWatcher::create(*loop, SIGUSR1, [&](int signum) { second.push_back(signum); }).value();
  auto c = SignalWatcher::create(*loop, SIGUSR2, [&](int signum) { second.push_back(signum); }).value();
  ::raise(SIGUSR1);
  loop->run_until([&] { return !second.empty(); });
  ::raise(SIGUSR2);
  loop->run_until([&] { return second.size() == 2; });
  CHECK(first == std::vector<int>{SIGUSR1});
  CHECK(second == std::vector<int>{SIGUSR1, SIGUSR2});
}

TEST_CASE("a signal that nobody can watch is an error") {
  auto loop = make_loop();
  CHECK(SignalWatcher::create(*loop, SIGKILL, [](int) {}).error().message ==
        "cannot watch signal 9: Invalid argument");
  CHECK(SignalWatcher::create(*loop, 0, [](int) {}).error().code == EINVAL);
}

TEST_CASE("a signal's disposition is as before when its last watcher has gone") {
  auto loop = make_loop();
  {
    auto watcher = SignalWatcher::create(*loop, SIGUSR1, [](int) {}).value();
  }
  struct sigaction action {};
  REQUIRE(::sigaction(SIGUSR1, nullptr, &action) == 0);
  CHECK(action.sa_handler == SIG_DFL);
}

TEST_CASE("a pipe is readable when there are bytes, and when its writer has gone") {
  auto loop = make_loop();
  auto pipe = make_pipe(O_CLOEXEC).value();
  std::vector<std::string> read;
  auto poll = Poll::create(*loop, pipe.read.get(), [&](int events) {
                CHECK(events == Poll::kReadable);
                char bytes[16];
                ssize_t got = ::read(pipe.read.get(), bytes, sizeof bytes);
                REQUIRE(got >= 0);
                read.emplace_back(bytes, static_cast<std::size_t>(got));
              }).value();
  CHECK((::fcntl(pipe.read.get(), F_GETFL) & O_NONBLOCK) != 0);
  REQUIRE(poll.start(Poll::kReadable));
  loop->poll();
  CHECK(read.empty());
  REQUIRE(::write(pipe.write.get(), "abc", 3) == 3);
  loop->run_until([&] { return read.size() == 1; });
  pipe.write.reset();
  loop->run_until([&] { return read.size() == 2; });
  CHECK(read == std::vector<std::string>{"abc", ""});
  poll.stop();
  loop->run();
}

TEST_CASE("a pipe is writable while it has room") {
  auto loop = make_loop();
  auto pipe = make_pipe(O_CLOEXEC).value();
  int calls = 0;
  auto poll = Poll::create(*loop, pipe.write.get(), [&](int events) {
                calls += events == Poll::kWritable ? 1 : 100;
              }).value();
  REQUIRE(poll.start(Poll::kWritable));
  loop->run_until([&] { return calls > 0; });
  CHECK(calls == 1);
  std::string block(4096, 'x');
  while (::write(pipe.write.get(), block.data(), block.size()) > 0) {
  }
  loop->poll();
  CHECK(calls == 1);
}

TEST_CASE("a pipe without a reader is an error to its writer, told once") {
  auto loop = make_loop();
  auto pipe = make_pipe(O_CLOEXEC).value();
  std::string block(4096, 'x');
  ::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
  while (::write(pipe.write.get(), block.data(), block.size()) > 0) {
  }
  std::vector<int> seen;
  auto poll = Poll::create(*loop, pipe.write.get(), [&](int events) { seen.push_back(events); }).value();
  REQUIRE(poll.start(Poll::kWritable));
  loop->poll();
  CHECK(seen.empty());
  pipe.read.reset();
  loop->run();
  CHECK(seen == std::vector<int>{0});
}

TEST_CASE("a watcher that is started again for the same events goes on, also after an error") {
  auto loop = make_loop();
  auto pipe = make_pipe(O_CLOEXEC).value();
  std::vector<int> seen;
  auto poll = Poll::create(*loop, pipe.write.get(), [&](int events) { seen.push_back(events); }).value();
  REQUIRE(poll.start(Poll::kWritable));
  REQUIRE(poll.start(Poll::kWritable));
  loop->run_until([&] { return !seen.empty(); });
  poll.stop();
  loop->poll();
  CHECK(seen == std::vector<int>{Poll::kWritable});
  REQUIRE(poll.start(Poll::kWritable));
  loop->run_until([&] { return seen.size() == 2; });
  CHECK(seen.back() == Poll::kWritable);
  pipe.read.reset();
  loop->run();
  CHECK(seen.back() == 0);
  std::size_t told = seen.size();
  REQUIRE(poll.start(Poll::kWritable));
  loop->run();
  CHECK(seen.size() > told);
  CHECK(seen.back() == 0);
}

TEST_CASE("a descriptor has one watcher, and a regular file none") {
  auto loop = make_loop();
  auto pipe = make_pipe(O_CLOEXEC).value();
  auto poll = Poll::create(*loop, pipe.read.get(), [](int) {}).value();
  REQUIRE(poll.start(Poll::kReadable));
  std::string fd = std::to_string(pipe.read.get());
  CHECK(Poll::create(*loop, pipe.read.get(), [](int) {}).error().message ==
        "cannot poll descriptor " + fd + ": File exists");
  UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  CHECK(Poll::create(*loop, file.get(), [](int) {}).error().code == EPERM);
  CHECK(Poll::create(*loop, -1, [](int) {}).error().code == EBADF);
}

TEST_CASE("a poll may be destroyed in its own callback") {
  auto loop = make_loop();
  auto pipe = make_pipe(O_CLOEXEC).value();
  int calls = 0;
  std::optional<Poll> poll;
  poll = Poll::create(*loop, pipe.read.get(), [&](int) {
           ++calls;
           poll.reset();
         }).value();
  REQUIRE(poll->start(Poll::kReadable));
  REQUIRE(::write(pipe.write.get(), "x", 1) == 1);
  loop->run();
  CHECK(calls == 1);
}

TEST_CASE("the loop starts no thread") {
  std::string before = threads_of_this_process();
  auto loop = make_loop();
  auto timer = Timer::create(*loop, [] {}).value();
  auto watcher = SignalWatcher::create(*loop, SIGUSR1, [](int) {}).value();
  timer.start(Seconds(0));
  loop->poll();
  CHECK(threads_of_this_process() == before);
}

TEST_CASE("a loop that cannot be made says why") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  auto loop = Loop::create();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(loop);
  CHECK(loop.error().message ==
        "cannot make an event loop: pipe (raise the limit with ulimit -n): Too many open files");
}

TEST_CASE("a watcher that outlives its loop aborts the process") {
  int status = status_of_child([] {
    auto loop = make_loop();
    auto leaked = Timer::create(*loop, [] {}).value();
    leaked.start(Seconds(3600));
    loop.reset();
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("a loop goes quietly when its watchers are gone, signals on their way or not") {
  int status = status_of_child([] {
    auto loop = make_loop();
    {
      auto timer = Timer::create(*loop, [] {}).value();
      timer.start(Seconds(0), Seconds(0.001));
      auto watcher = SignalWatcher::create(*loop, SIGUSR1, [](int) {}).value();
      ::raise(SIGUSR1);
    }
    loop->stop();
    loop.reset();
  });
  CHECK(status == 0);
}
