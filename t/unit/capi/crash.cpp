// SPDX-License-Identifier: Apache-2.0
#include "plugin/crash.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"

#include "capi/loader.hpp"
#include "fake_host.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

const std::string kCrash = DSO_DIRECTORY "/crash.so";

struct Ended {
  value::WaitStatus status;
  std::string said;  // on stderr
};

// Runs `code` in a child, which then exits with 0.
Ended in_child(const std::function<void()>& code) {
  Pipe pipe = *make_pipe(0);
  pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::dup2(pipe.write.get(), STDERR_FILENO);
    for (int signum : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS})
      std::signal(signum, SIG_DFL);  // not the test's own handlers
    code();
    ::_exit(0);
  }
  pipe.write.reset();
  Ended ended;
  char buffer[256];
  for (ssize_t n = 0; (n = ::read(pipe.read.get(), buffer, sizeof buffer)) > 0;) {
    ended.said.append(buffer, static_cast<std::size_t>(n));
  }
  int raw = 0;
  ::waitpid(pid, &raw, 0);
  ended.status = value::WaitStatus::of_raw(raw);
  return ended;
}

Ended call_in_child(const char* topic) {
  return in_child([&] {
    kit::FakeHost host;
    (void)load(host, kCrash, nullptr);
    (void)host.call(topic);
  });
}

}  // namespace

TEST_CASE("a crash in a handler ends the process with one line that names plugin and topic") {
  struct Case {
    const char* topic;
    const char* line;
  };
  for (const Case& each : {Case{"task.segv", "nacre-shell: plugin 'crash' crashed in task.segv (SIGSEGV)\n"},
                           Case{"task.abort", "nacre-shell: plugin 'crash' crashed in task.abort (SIGABRT)\n"},
                           Case{"task.fpe", "nacre-shell: plugin 'crash' crashed in task.fpe (SIGFPE)\n"},
                           Case{"task.stack", "nacre-shell: plugin 'crash' crashed in task.stack (SIGSEGV)\n"}}) {
    Ended ended = call_in_child(each.topic);
    CHECK(ended.status == value::WaitStatus::exited(1));
    CHECK(ended.said == each.line);
  }
}

TEST_CASE("a crash while a plugin is loaded is its too") {
  Ended ended = in_child([] {
    kit::FakeHost host;
    (void)load(host, kCrash, {{"now", true}});
  });
  CHECK(ended.status == value::WaitStatus::exited(1));
  CHECK(ended.said == "nacre-shell: plugin 'crash' crashed in flux_plugin_init (SIGILL)\n");
}

TEST_CASE("a crash in a callback from the loop names the plugin that set it up") {
  Ended ended = in_child([] {
    kit::FakeHost host;
    (void)load(host, DSO_DIRECTORY "/probe_reactor.so", nullptr);
    (void)load(host, kCrash, nullptr);
    (void)host.call("probe.crash-later");
    (void)host.run_loop();
  });
  CHECK(ended.status == value::WaitStatus::exited(1));
  CHECK(ended.said == "nacre-shell: plugin 'probe-reactor' crashed in timer callback (SIGSEGV)\n");
}

TEST_CASE("a crash elsewhere is nobody's: the signal takes its course") {
  Ended ended = in_child([] {
    kit::FakeHost host;
    (void)load(host, kCrash, nullptr);
    (void)host.call("task.fine");
    ::raise(SIGBUS);
  });
  CHECK(ended.status == value::WaitStatus::killed(SIGBUS));
  CHECK(ended.said.empty());
}

TEST_CASE("the last act of a crash is done in the process that asked for it") {
  auto say = [](void* text) {
    auto* line = static_cast<const char*>(text);
    [[maybe_unused]] ssize_t n = ::write(STDERR_FILENO, line, std::strlen(line));
  };
  char words[] = "the tasks are ended\n";
  const std::string line = "nacre-shell: plugin 'crash' crashed in task.segv (SIGSEGV)\n";
  auto crash = [] {
    kit::FakeHost host;
    (void)load(host, kCrash, nullptr);
    (void)host.call("task.segv");
  };
  CHECK(in_child([&] {
          set_last_act(say, words);
          crash();
        }).said == line + words);
  CHECK(in_child([&] {
          set_last_act(say, words);
          set_last_act(nullptr, nullptr);
          crash();
        }).said == line);
  set_last_act(say, words);
  CHECK(in_child(crash).said == line);
  set_last_act(nullptr, nullptr);
}

TEST_CASE("scopes nest, and the guard leaves as it came") {
  struct sigaction before {};
  ::sigaction(SIGSEGV, nullptr, &before);
  {
    CrashGuard guard;
    struct sigaction during {};
    ::sigaction(SIGSEGV, nullptr, &during);
    CHECK(during.sa_sigaction != before.sa_sigaction);
  }
  struct sigaction after {};
  ::sigaction(SIGSEGV, nullptr, &after);
  CHECK(after.sa_sigaction == before.sa_sigaction);

  Ended ended = in_child([] {
    CrashGuard guard;
    const std::string outer = "outer";
    const std::string inner = "inner";
    const std::string topic = "topic";
    CrashScope outside(outer, topic);
    { CrashScope inside(inner, topic); }
    ::raise(SIGABRT);
  });
  CHECK(ended.said == "nacre-shell: plugin 'outer' crashed in topic (SIGABRT)\n");
}
