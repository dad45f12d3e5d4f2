// SPDX-License-Identifier: Apache-2.0
//
// A whole Shell in this process, on its own loop: real tasks, no builtin plugins, one plugin that does in each
// topic what the test says, and a group in which the test plays the other shells.
#pragma once

#include <sys/wait.h>

#include "core/shell.hpp"
#include "expects_signal.hpp"
#include "fake_group.hpp"
#include "group/alone.hpp"
#include "job_of_nodes.hpp"

namespace nacre::core {

using namespace join;  // NOLINT
using namespace kit;   // NOLINT

inline constexpr const char* kTopics[] = {"shell.init",  "shell.post-init", "task.init",    "task.fork",
                                          "shell.start", "task.exit",       "shell.finish", "shell.tasks-complete",
                                          "shell.exit",  "shell.lost"};

class ShellUnderTest {
 public:
  // What the test's plugin does in a topic.
  using Do = std::function<Result<void>(ShellUnderTest& it)>;

  explicit ShellUnderTest(group::Rank shell_rank = 0, std::uint32_t shells = 1) : rank(shell_rank), size(shells) {
    process.loop = event::Loop::create().value();
    process.children = event::Children::create(*process.loop, {}).value();
    process.signals = Signals::watch(*process.loop).value();
    if (size > 1) {
      auto fake = std::make_unique<FakeGroup>(*process.loop, rank);
      group = fake.get();
      process.group = std::move(fake);
      process.joined = true;
    } else {
      process.group = std::make_unique<group::Alone>(rank);
    }
    log.add_sink("test", [this](const LogEntry& entry) {
      logged.push_back(fmt::format("{}: {}", level_name(entry.level), entry.message));
    });
    config.has_input = false;
    config.system_initrc = "/nonexistent/initrc.lua";
    config.load_builtins = [this](plugin::Host& host) { load(host); };
  }

  // The exit code of the process; `error` is what it would print.
  int run() {
    if (group != nullptr && rank == 0 && !group->others) {
      group->others = {value::Idset::range(tasks, size * tasks - 1),
                       exits::Record::of(value::WaitStatus::exited(0))};
    }
    auto made = Shell::create(process, identity(), config, log);
    REQUIRE(made);
    shell = std::move(*made);
    Result<int> code = shell->run();
    if (!code) error = code.error();
    shell.reset();
    // No child is left, however the job has ended.
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
    return code.value_or(1);
  }

  void receive(int signum, Signals::From from = Signals::From::process) { process.signals->received(signum, from); }
  // Acts as if another shell of the job had raised an exception.
  void raise_elsewhere(int code, group::Rank origin = 2) {
    group->raise_elsewhere({"exec", 0, fmt::format("shell {} failed", origin), code, origin, true});
  }
  void lose_launcher(std::optional<int> because_of = {}) {
    process.launcher_events.ended_by = because_of;
    process.launcher_events.gone = Error{EPIPE, "the launcher has gone"};
    process.launcher_events.on_gone();
  }
  // Calls `what` from the loop, after this time.
  void later(event::Seconds delay, std::function<void()> what, event::Seconds again = {}) {
    timers.push_back(event::Timer::create(*process.loop, std::move(what)).value());
    timers.back().start(delay, again);
  }
  // From each call of the topic on, after this time; what is set for the topic so far stays.
  void after(const char* topic, double seconds, std::function<void(ShellUnderTest&)> what) {
    at[topic] = [before = at[topic], seconds, what = std::move(what)](ShellUnderTest& self) {
      self.later(event::Seconds(seconds), [&self, what] { what(self); });
      return before ? before(self) : Result<void>();
    };
  }
  // Calls `what` from the loop once the first task handles the signal, or ignores it.
  void once_task_expects(int signum, std::function<void()> what) {
    auto look = [this, signum, what = std::move(what), timer = timers.size()] {
      if (!expects_signal(shell->host().tasks()[0]->pid(), signum)) return;
      timers[timer].stop();
      what();
    };
    later(event::Seconds(0.005), std::move(look), event::Seconds(0.005));
  }

  [[nodiscard]] std::size_t called(const std::string& topic) const {
    return std::count(topics.begin(), topics.end(), topic);
  }
  [[nodiscard]] std::size_t has_logged(std::string_view part) const {
    return std::count_if(logged.begin(), logged.end(),
                         [&](const std::string& line) { return line.find(part) != line.npos; });
  }
  [[nodiscard]] const std::optional<exits::Cause>& cause() const { return process.end.cause(); }

  group::Rank rank;
  std::uint32_t size;
  std::uint32_t tasks = 1;
  std::vector<std::string> command{"true"};
  Json options = Json::object();
  std::map<std::string, Do> at;  // by topic

  ShellConfig config;
  ShellProcess process;
  FakeGroup* group = nullptr;  // of several shells
  std::unique_ptr<Shell> shell;
  std::vector<std::string> topics;  // in the order of their calls
  std::vector<std::string> logged;  // "LEVEL: MESSAGE"
  std::optional<Error> error;       // of run()
  Log log;

 private:
  [[nodiscard]] boot::Identity identity() const {
    boot::Identity me;
    me.id = value::JobId(4711);
    me.shell_rank = rank;
    me.spec = job::Jobspec::parse(jobspec_of(size, tasks, command, options)).value();
    me.resources = job::Resources::parse(resources_of(size, tasks)).value();
    return me;
  }
  void load(plugin::Host& host) {
    auto plugin = std::make_unique<plugin::Plugin>("test", "test.so");
    for (const char* topic : kTopics) plugin->on(topic, [this](plugin::Call& call) { return handle(call.topic); });
    for (const auto& [topic, what] : at) {
      plugin->on(topic, [this](plugin::Call& call) { return handle(call.topic); });
    }
    host.stack().push(std::move(plugin));
  }
  Result<void> handle(const std::string& topic) {
    topics.push_back(topic);
    auto found = at.find(topic);
    return found != at.end() ? found->second(*this) : Result<void>();
  }
  std::vector<event::Timer> timers;  // last: before the loop
};

}  // namespace nacre::core
