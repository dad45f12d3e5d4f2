// SPDX-License-Identifier: Apache-2.0
#include "plugin/crash.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "catch.hpp"

#include "base/unique_fd.hpp"
#include "value/wait_status.hpp"

using namespace nacre;
using namespace nacre::plugin;

namespace {

const std::string kPlugin = "p";
const std::string kTopic = "t";

struct Outcome {
  value::WaitStatus status = value::WaitStatus::exited(0);
  std::string line;
};

// Runs `code` in a child whose loop watches SIGTERM and SIGINT, as the plugin 'p' in the topic 't'.
Outcome run_watched(const std::function<void(event::Loop&)>& code) {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::dup2(pipe.write.get(), STDERR_FILENO);
    for (int signum : {SIGTERM, SIGINT, SIGHUP}) std::signal(signum, SIG_DFL);  // not the test's own handlers
    watch_for_exit();
    auto loop = event::Loop::create().value();
    auto term = event::SignalWatcher::create(*loop, SIGTERM, [](int) {}).value();
    auto interrupt = event::SignalWatcher::create(*loop, SIGINT, [](int) {}).value();
    auto second = SecondSignal::create(*loop).value();
    code(*loop);
    ::_exit(0);
  }
  pipe.write.reset();
  Outcome ended;
  char buffer[256];
  for (ssize_t n = 0; (n = ::read(pipe.read.get(), buffer, sizeof buffer)) > 0;)
    ended.line.append(buffer, static_cast<std::size_t>(n));
  int raw = 0;
  ::waitpid(pid, &raw, 0);
  ended.status = value::WaitStatus::of_raw(raw);
  { CurrentCall call(kPlugin, kTopic); }  // ends the call that the child has left unfinished
  return ended;
}

void pause_for(std::int64_t nanoseconds) {
  timespec time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  ::nanosleep(&time, nullptr);
}

void raise_apart(int signum) {
  pause_for(SecondSignal::kApart + SecondSignal::kApart / 2);
  ::raise(signum);
}

}  // namespace

TEST_CASE("a second signal within one call ends the process, and names the plugin") {
  Outcome ended = run_watched([](event::Loop&) {
    set_rank_of_last_lines(3);
    CurrentCall call(kPlugin, kTopic);
    ::raise(SIGTERM);
    raise_apart(SIGINT);
  });
  CHECK(ended.status == value::WaitStatus::exited(128 + SIGINT));
  CHECK(ended.line == "nacre-shell[3]: plugin 'p' does not return from t: ended by a second SIGINT\n");
}

TEST_CASE("a signal that comes twice at once is one") {
  Outcome ended = run_watched([](event::Loop&) {
    CurrentCall call(kPlugin, kTopic);
    ::raise(SIGTERM);
    ::raise(SIGINT);
  });
  CHECK(ended.status == value::WaitStatus::exited(0));
  CHECK(ended.line.empty());
}

TEST_CASE("signals of several calls, outside of any, or that the loop has taken up, are no second ones") {
  CHECK(run_watched([](event::Loop&) {
          for (int i = 0; i < 2; ++i) {
            CurrentCall call(kPlugin, kTopic);
            raise_apart(SIGTERM);
          }
          raise_apart(SIGTERM);
          raise_apart(SIGTERM);
        }).status == value::WaitStatus::exited(0));
  CHECK(run_watched([](event::Loop& loop) {
          CurrentCall call(kPlugin, kTopic);
          for (int i = 0; i < 3; ++i) {
            raise_apart(SIGTERM);
            loop.poll();
          }
        }).status == value::WaitStatus::exited(0));
}

TEST_CASE("what watches a signal gets each, and one that nobody watches takes its course") {
  CHECK(run_watched([](event::Loop& loop) {
          int got = 0;
          auto watcher = event::SignalWatcher::create(loop, SIGTERM, [&got](int) { ++got; }).value();
          ::raise(SIGTERM);
          loop.poll();
          ::raise(SIGTERM);
          loop.poll();
          ::_exit(got);
        }).status == value::WaitStatus::exited(2));
  CHECK(run_watched([](event::Loop&) {
          CurrentCall call(kPlugin, kTopic);
          ::raise(SIGHUP);
        }).status == value::WaitStatus::killed(SIGHUP));
}

TEST_CASE("exit in a call is a failure of the plugin, after the last act; elsewhere it is none") {
  auto act = [](void*) { static_cast<void>(!::write(STDERR_FILENO, "acted\n", 6)); };
  Outcome ended = run_watched([&](event::Loop&) {
    set_last_act(act, nullptr);
    CurrentCall call(kPlugin, kTopic);
    ::exit(3);
  });
  CHECK(ended.status == value::WaitStatus::exited(1));
  CHECK(ended.line == "nacre-shell: plugin 'p' called exit(3) in t\nacted\n");
  ended = run_watched([](event::Loop&) {
    { CurrentCall call(kPlugin, kTopic); }
    ::exit(3);
  });
  CHECK(ended.status == value::WaitStatus::exited(3));
  CHECK(ended.line.empty());
}

TEST_CASE("a forked process may exit in a call as it likes") {
  Outcome ended = run_watched([](event::Loop&) {
    CurrentCall call(kPlugin, kTopic);
    pid_t pid = ::fork();
    if (pid == 0) ::exit(3);
    int raw = 0;
    ::waitpid(pid, &raw, 0);
    ::_exit(WEXITSTATUS(raw));
  });
  CHECK(ended.status == value::WaitStatus::exited(3));
  CHECK(ended.line.empty());
}

TEST_CASE("the handlers of signals are put back") {
  std::signal(SIGTERM, SIG_DFL);
  auto loop = event::Loop::create().value();
  auto term = event::SignalWatcher::create(*loop, SIGTERM, [](int) {}).value();
  struct sigaction before {};
  struct sigaction after {};
  ::sigaction(SIGTERM, nullptr, &before);
  SecondSignal::create(*loop).value().reset();
  ::sigaction(SIGTERM, nullptr, &after);
  CHECK(before.sa_handler == after.sa_handler);
}
