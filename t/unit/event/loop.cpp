// SPDX-License-Identifier: Apache-2.0
#include "event/loop.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "catch.hpp"

#include "base/file.hpp"
#include "base/guarded.hpp"
#include "base/unique_fd.hpp"
#include "event/clock.hpp"
#include "event/timers.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::event;  // NOLINT

namespace {

std::unique_ptr<Loop> make_loop() { return Loop::create().value(); }

std::string threads_of_this_process() {
  std::string status = read_file("/proc/self/status").value();
  std::size_t at = status.find("\nThreads:");
  return status.substr(at + 1, status.find('\n', at + 1) - at - 1);
}

// The wait status of a forked copy of this process that runs `body`, with its stderr closed.
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

TEST_CASE("a poll that is started again goes on, for the same events or others, also after a stop") {
  auto loop = make_loop();
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const UniqueFd here(ends[0]);
  const UniqueFd there(ends[1]);
  std::vector<int> seen;
  std::optional<Poll> poll;
  poll = Poll::create(*loop, here.get(), [&](int events) {
           seen.push_back(events);
           switch (seen.size()) {
             case 1: REQUIRE(poll->start(Poll::kReadable)); break;
             case 2: REQUIRE(poll->start(Poll::kReadable | Poll::kWritable)); break;
             case 3:
               poll->stop();
               REQUIRE(poll->start(Poll::kReadable | Poll::kWritable));
               break;
             default: poll->stop();
           }
         }).value();
  REQUIRE(poll->start(Poll::kReadable));
  REQUIRE(::write(there.get(), "x", 1) == 1);
  loop->run();
  CHECK(seen == std::vector{int{Poll::kReadable}, int{Poll::kReadable}, Poll::kReadable | Poll::kWritable,
                            Poll::kReadable | Poll::kWritable});
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

TEST_CASE("phases run in each round: before and after the wait, and an idle one instead of it") {
  auto loop = Loop::create().value();
  std::string order;
  auto prepare = Phase::create(*loop, Phase::When::prepare, [&] { order += 'p'; }).value();
  auto check = Phase::create(*loop, Phase::When::check, [&] { order += 'c'; }).value();
  auto idle = Phase::create(*loop, Phase::When::idle, [&] { order += 'i'; }).value();
  prepare.start();
  check.start();
  idle.start();
  loop->run_once();
  CHECK(order == "ipc");
  idle.stop();
  prepare.stop();
  loop->poll();
  CHECK(order == "ipcc");
}

TEST_CASE("a watcher that must not keep the loop running does not") {
  auto loop = Loop::create().value();
  auto timer = Timer::create(*loop, [] {}).value();
  auto idle = Phase::create(*loop, Phase::When::idle, [] {}).value();
  CHECK_FALSE(loop->alive());
  timer.start(Seconds(600));
  idle.start();
  CHECK(loop->alive());
  timer.keeps_running(false);
  CHECK(loop->alive());
  idle.keeps_running(false);
  CHECK_FALSE(loop->alive());
  loop->run();  // returns
  idle.keeps_running(true);
  CHECK(loop->alive());
}

TEST_CASE("a loop knows that it runs") {
  auto loop = Loop::create().value();
  bool inside = false;
  auto timer = Timer::create(*loop, [&] { inside = loop->running(); }).value();
  timer.start(Seconds(0));
  CHECK_FALSE(loop->running());
  loop->run();
  CHECK(inside);
  CHECK_FALSE(loop->running());
}

TEST_CASE("timers fire in the order of their delays, once") {
  auto loop = Loop::create().value();
  std::string fired;
  auto late = Timer::create(*loop, [&] { fired += "c"; }).value();
  auto early = Timer::create(*loop, [&] { fired += "a"; }).value();
  auto middle = Timer::create(*loop, [&] { fired += "b"; }).value();
  late.start(Seconds(0.03));
  double before = loop->now();  // each start looks at the clock
  early.start(Seconds(0));
  middle.start(Seconds(0.01));
  loop->run();
  CHECK(fired == "abc");
  CHECK(loop->now() - before >= 0.03 - 1e-9);
}

TEST_CASE("a repeating timer fires until it is stopped") {
  auto loop = Loop::create().value();
  int fired = 0;
  std::optional<Timer> timer;
  timer = Timer::create(*loop, [&] {
            if (++fired == 3) timer->stop();
          }).value();
  timer->start(Seconds(0.001), Seconds(0.001));
  loop->run();
  CHECK(fired == 3);
}

TEST_CASE("starting a timer again puts it off") {
  auto loop = Loop::create().value();
  std::string fired;
  auto a = Timer::create(*loop, [&] { fired += "a"; }).value();
  auto b = Timer::create(*loop, [&] { fired += "b"; }).value();
  a.start(Seconds(0.001));
  b.start(Seconds(0.005));
  a.start(Seconds(0.020));
  loop->run();
  CHECK(fired == "ba");
}

TEST_CASE("a delay beyond all clocks never fires, one that is none fires at once") {
  auto loop = Loop::create().value();
  std::string fired;
  auto never = Timer::create(*loop, [&] { fired += "never"; }).value();
  auto nan = Timer::create(*loop, [&] { fired += "a"; }).value();
  auto past = Timer::create(*loop, [&] { fired += "b"; }).value();
  for (double huge : {1e13, 1e300, std::numeric_limits<double>::infinity()}) {
    fired.clear();
    never.start(Seconds(huge));
    nan.start(Seconds(std::numeric_limits<double>::quiet_NaN()));
    past.start(Seconds(-5));
    loop->run_until([&] { return fired.size() >= 2; });
    CHECK(fired == "ab");
  }
}

TEST_CASE("a grace is as long as its delay, then repeats as asked") {
  auto loop = Loop::create().value();
  int fired = 0;
  double begun = loop->now();
  Timer timer = Timer::create(*loop, [&] {
                  if (++fired == 2) loop->stop();
                }).value();
  timer.start_grace(Seconds(1.2), Seconds(0.05));
  loop->run();
  CHECK(loop->now() - begun >= 1.25);
  timer.stop();
  loop->run();
  CHECK(fired == 2);
}

TEST_CASE("a standstill is no component of a grace") {
  auto loop = Loop::create().value();
  double woke = 0;
  double usual = 0;
  double patient = 0;
  Timer still = Timer::create(*loop, [&] {
                  ::usleep(1'500'000);
                  loop->update_now();
                  woke = loop->now();
                }).value();
  Timer plain = Timer::create(*loop, [&] { usual = loop->now(); }).value();
  Timer grace = Timer::create(*loop, [&] { patient = loop->now(); }).value();
  still.start(Seconds(0.05));
  plain.start(Seconds(0.3));
  grace.start_grace(Seconds(0.3));
  loop->run();
  CHECK(usual - woke < 0.25);
  CHECK(patient - woke >= 0.29);
}

TEST_CASE("a timer that is unreferenced does not keep the loop running") {
  auto loop = Loop::create().value();
  bool fired = false;
  auto timer = Timer::create(*loop, [&] { fired = true; }).value();
  timer.start(Seconds(3600));
  timer.unref();
  loop->run();
  CHECK_FALSE(fired);
}

TEST_CASE("what a callback throws is reported as of the component that made the timer, and the loop goes on") {
  auto loop = Loop::create().value();
  std::string reported;
  when_thrown([&](const Component* component, std::string_view what) {
    reported += (component == nullptr ? "-" : component->name) + ": " + std::string(what) + "; ";
  });
  const Component usage{"usage", false};
  std::optional<Timer> made, inner;
  {
    const InComponent in_component(&usage);
    made = Timer::create(*loop, [&] {
             inner = Timer::create(*loop, [] { throw std::runtime_error("inner"); }).value();
             inner->start(Seconds(0));
             throw std::runtime_error("made");
           }).value();
  }
  bool others = false;
  auto other = Timer::create(*loop, [&] { others = true; }).value();
  made->start(Seconds(0));
  other.start(Seconds(0.02));
  loop->run();
  when_thrown(nullptr);
  CHECK(reported == "usage: internal error: made; usage: internal error: inner; ");
  CHECK(others);
}

TEST_CASE("a timer that starts itself again at once lets other events through") {
  auto loop = Loop::create().value();
  int steps = 0;
  int fds[2];
  REQUIRE(::pipe(fds) == 0);
  std::optional<Timer> step;
  step = Timer::create(*loop, [&] {
           if (++steps < 1000) step->start(Seconds::zero());
         }).value();
  int steps_before = -1;
  auto poll = Poll::create(*loop, fds[0], [&](int) {
                if (steps_before < 0) steps_before = steps;
                step->stop();
                loop->stop();
              }).value();
  REQUIRE(poll.start(Poll::kReadable));
  step->start(Seconds::zero());
  REQUIRE(::write(fds[1], "x", 1) == 1);
  loop->run();
  CHECK(steps_before >= 0);
  CHECK(steps_before <= 2);
  ::close(fds[1]);
  ::close(fds[0]);
}

TEST_CASE("a fine timer fires once for each start, in less than a millisecond") {
  auto loop = Loop::create().value();
  int fired = 0;
  auto timer = FineTimer::create(*loop, [&] { ++fired; }).value();
  loop->run();  // the watcher has not been started
  CHECK(fired == 0);
  for (int round = 1; round <= 3; ++round) {
    timer.start(Seconds(100e-6));
    loop->run();
    CHECK(fired == round);
  }
  double shortest = 1;
  for (int round = 0; round < 50; ++round) {
    double before = clock_now().count();
    timer.start(Seconds(100e-6));
    loop->run();
    shortest = std::min(shortest, clock_now().count() - before);
  }
  CHECK(shortest >= 100e-6);
  CHECK(shortest < 1e-3);
}

TEST_CASE("a fine timer that is started again, also by what it calls, goes on from then") {
  auto loop = Loop::create().value();
  int fired = 0;
  std::optional<FineTimer> timer;
  timer = FineTimer::create(*loop, [&] {
            if (++fired < 3) timer->start(Seconds(50e-6));
          }).value();
  timer->start(Seconds(0.9));
  timer->start(Seconds(50e-6));
  double before = clock_now().count();
  loop->run();
  CHECK(fired == 3);
  CHECK(clock_now().count() - before < 0.9);
}
