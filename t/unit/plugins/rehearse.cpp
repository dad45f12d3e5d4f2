// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

// A process that leads a group, as a task does.
struct Sleeper {
  Sleeper() : pid(::fork()) {
    if (pid == 0) {
      ::setpgid(0, 0);
      for (;;) ::pause();
    }
    ::setpgid(pid, pid);
  }
  ~Sleeper() {
    if (pid > 0 && ::kill(pid, SIGKILL) == 0) ::waitpid(pid, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // Whether the process's status has changed in this way.
  bool is_now(const std::function<bool(int)>& is, int flags) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG | flags) != pid || !is(status)) return false;
    return true;
  }

  pid_t pid;
};

struct Rehearsed {
  explicit Rehearsed(const Json& events, const std::map<std::size_t, pid_t>& pids = {}) {
    auto& nodes = host.mutable_job().resources.nodes;
    nodes[0].hostname = "a";
    nodes.push_back({1, "b", {}, {}, {}});
    nodes.push_back({2, "c", {}, {}, {}});
    host.stack().push(plugins::make_rehearse(host));
    host.start_tasks(pids);
    if (!events.is_null()) host.options().set("rehearse", events);
  }

  std::string error() {
    auto called = host.call("shell.init");
    std::string message = called ? "" : called.error().message;
    return message.substr(std::min(message.find("init: "), message.size()));
  }
  void start() {
    REQUIRE(host.call("shell.init"));
    REQUIRE(host.call("shell.start"));
  }
  bool has_logged(const std::string& line) { return std::count(host.logged.begin(), host.logged.end(), line) == 1; }

  kit::FakeHost host;
};

}  // namespace

TEST_CASE("without events a rehearsal does nothing, and wrong ones are refused", "[rehearse]") {
  Rehearsed none(nullptr);
  none.start();
  CHECK_FALSE(none.host.next_timer());
  CHECK(Rehearsed("stop a").error() == "init: rehearse: at character 1: expected kill, freeze or cut, got 'stop'");
  CHECK(Rehearsed(5).error() == "init: rehearse: expected a string, got 5");
  CHECK(Rehearsed("kill d").error() ==
        "init: rehearse: kill d: 'd' is no node of the job: expected a host of it, or n0 to n2");
  CHECK(Rehearsed("kill rank 4").error() ==
        "init: rehearse: kill rank 4: there is no rank 4: the job has ranks 0-3");
}

TEST_CASE("a task gets the signal of an event, and a line reports it", "[rehearse]") {
  Sleeper task;
  Rehearsed job("kill rank 1 with SIGSTOP at 10ms", {{1, task.pid}});
  job.start();
  REQUIRE(job.host.serve([&] {
    return task.is_now([](int status) { return WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP; }, WUNTRACED);
  }));
  CHECK(job.has_logged("notice rehearse: kill rank 1 with SIGSTOP at 10ms"));
}

TEST_CASE("a task stands still for the time of an event", "[rehearse]") {
  Sleeper task;
  Rehearsed job("freeze rank 2 for 20ms", {{2, task.pid}});
  job.start();
  REQUIRE(job.host.serve([&] { return task.is_now([](int status) { return WIFSTOPPED(status); }, WUNTRACED); }));
  REQUIRE(job.host.serve([&] { return task.is_now([](int status) { return WIFCONTINUED(status); }, WCONTINUED); }));
}

TEST_CASE("cuts hold the links between their sides, each for its time, and all until the tasks have ended",
          "[rehearse]") {
  using Held = std::vector<std::string>;
  Rehearsed job("cut a-b for 50ms; cut a-c at 10ms; cut b-c at 15ms");
  auto held = [&] {
    Held out;
    for (const auto& each : job.host.held_links) out.push_back(each.str());
    return out;
  };
  job.start();
  REQUIRE(job.host.serve([&] { return held().size() == 3; }));
  CHECK(held() == Held{"1", "1-2", "2"});
  CHECK(job.has_logged("notice rehearse: cut b-c at 15ms"));  // the leader reports the other shells' events
  REQUIRE(job.host.call("shell.tasks-complete"));
  CHECK(held() == Held{"1", "1-2", "2", ""});
}

TEST_CASE("an event of a task that has ended is a line", "[rehearse]") {
  Rehearsed job("kill rank 0 at 10ms");
  REQUIRE(job.host.end_task(0, value::WaitStatus::exited(0)));
  job.start();
  REQUIRE(job.host.serve(
      [&] { return job.has_logged("notice rehearse: kill rank 0 at 10ms: rank 0 has ended before"); }));
}
