// SPDX-License-Identifier: Apache-2.0
//
// sched=batch|other|idle: the policy by which the kernel schedules each task, see sched(7). Without it: the shell's
// own. session=task: each task leads a session of its own, which is a group of its own for the scheduler of kernels
// with autogroups. It is the default for ranks of MPI on such kernels, if they have no terminal and do not yield to
// each other: they spin while they wait, and would get together as much as one process of another session. Other
// tasks would only start later, as the shell gets as much as one of them. session=shell: tasks are in the shell's
// session.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr std::array<std::pair<const char*, int>, 3> kPolicies{
    {{"batch", SCHED_BATCH}, {"other", SCHED_OTHER}, {"idle", SCHED_IDLE}}};

bool has_autogroups() {
  auto text = read_file("/proc/sys/kernel/sched_autogroup_enabled");
  return text && trim(*text) == "1";
}

// Tasks that lead sessions do not reach the terminal by /dev/tty. A shell that was launched has /dev/null as its
// standard input, whatever its launcher has.
bool has_terminal() {
  if (::isatty(STDIN_FILENO) == 1) return true;
  const UniqueFd terminal(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
  return terminal && is_null(STDIN_FILENO);
}

class Scheduling final : public plugin::Plugin {
 public:
  explicit Scheduling(plugin::Host& host) : Plugin("scheduling"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("task.init", [this] {
      task::ChildSetup& setup = host_.current_task()->command().setup;
      setup.settings.of<task::Scheduler>() = policy_;
      setup.new_session = own_session_;
    });
  }

 private:
  Result<void> read() {
    if (auto option = host_.options().at("sched")) {
      const auto* policy = std::find_if(kPolicies.begin(), kPolicies.end(),
                                        [&](const auto& each) { return option->json() == each.first; });
      if (policy == kPolicies.end()) return option->expected("batch, other or idle");
      policy_ = policy->second;
    }
    if (auto option = host_.options().at("session")) {
      own_session_ = option->json() == "task";
      if (!own_session_ && option->json() != "shell") return option->expected("task or shell");
      return {};
    }
    const bool stays = TRY(host_.options().flag("nosetpgrp")) || host_.options().find("pty.interactive") != nullptr;
    own_session_ = !stays && host_.tasks().size() > 1 && !tasks_yield() && has_autogroups() && !has_terminal() &&
                   is_of_mpi(host_);
    return {};
  }

  // Whether ranks of Open MPI share cores (let_yield of plugins/pmi): sched_yield(2) only yields within a group.
  [[nodiscard]] bool tasks_yield() const {
    return host_.stack().find("pmix") != nullptr && host_.tasks().size() > host_.job().node().cores.size();
  }

  plugin::Host& host_;
  std::optional<int> policy_;
  bool own_session_ = false;
};

}  // namespace

PluginPtr make_scheduling(plugin::Host& host) { return std::make_unique<Scheduling>(host); }

}  // namespace nacre::plugins
