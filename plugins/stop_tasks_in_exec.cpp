// SPDX-License-Identifier: Apache-2.0
//
// stop-tasks-in-exec: each task stands still at its first instruction, until a debugger or SIGCONT lets it go.
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

class StopTasksInExec final : public plugin::Plugin {
 public:
  explicit StopTasksInExec(plugin::Host& host) : Plugin("stop-tasks-in-exec"), host_(host) {
    on("shell.init", [this]() -> Result<void> {
      // This tells a debugger's starter that the tasks wait until it lets them go.
      if (TRY(host_.options().flag(name()))) host_.add_event_context("shell.start", {{"sync", true}});
      return {};
    });
    on("task.init", [this]() -> Result<void> {
      host_.current_task()->command().setup.trace_me = TRY(host_.options().flag(name()));
      return {};
    });
  }

 private:
  plugin::Host& host_;
};

}  // namespace

PluginPtr make_stop_tasks_in_exec(plugin::Host& host) { return std::make_unique<StopTasksInExec>(host); }

}  // namespace nacre::plugins
