// SPDX-License-Identifier: Apache-2.0
//
// exit-on-error: the first task that fails ends the job, with its exit code. exit-on-error=first looks at the first
// task to end only, as flux-shell does: if that one succeeded, later failures end nothing.
#include <fmt/format.h>

#include "builtins.hpp"

namespace nacre::plugins {
namespace {

class ExitOnError final : public plugin::Plugin {
 public:
  explicit ExitOnError(plugin::Host& host) : Plugin("exit-on-error"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("task.exit", [this](plugin::Call&) {
      task_exited(*host_.current_task());
      return Result<void>();
    });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at(name());
    first_only_ = option && option->json() == "first";
    Result<bool> on = first_only_ ? true : host_.options().flag(name());
    if (!on) return option->expected("true or false, a number, or \"first\"");
    enabled_ = *on;
    return {};
  }

  void task_exited(const task::Task& task) {
    bool first = !seen_;
    seen_ = true;
    if (!enabled_ || task.status().success() || (first_only_ && !first)) return;
    const std::string& host = host_.job().node().hostname;
    host_.raise({"exec", 0,
                 fmt::format("task {}{}{} {}", task.rank(), host.empty() ? "" : " on ", host, task.status().str()),
                 task.status()});
  }

  plugin::Host& host_;
  bool enabled_ = false;
  bool first_only_ = false;
  bool seen_ = false;  // some task has ended
};

}  // namespace

PluginPtr make_exit_on_error(plugin::Host& host) { return std::make_unique<ExitOnError>(host); }

}  // namespace nacre::plugins
