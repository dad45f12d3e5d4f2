// SPDX-License-Identifier: Apache-2.0
//
// With `output.events`: exceptions, lost shells, tasks that start again, and the end of the job as lines of JSON at
// the leader's standard output, behind the tasks' output. exit-notify writes how tasks end, exit-report the report,
// and control who attaches.
#include "plugin/events.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

class Events final : public plugin::Plugin {
 public:
  explicit Events(plugin::Host& host) : Plugin("events"), host_(host) {
    on("shell.init", [this] { begin(); });
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { shell_lost(lost); });
    on("job.tasks-moved", [this](plugin::Call& call) {
      if (is_on_) put("moved", call.in);
    });
    on("job.resized", [this](plugin::Call& call) {
      if (is_on_) put("resized", call.in);
    });
    on("job.tasks-restart", [this](plugin::Call& call) {
      if (is_on_) put("restart", call.in);
    });
  }

 private:
  void begin() {
    if (host_.task_output() == nullptr || !host_.task_output()->takes_events()) return;
    is_on_ = true;
    posted_ = host_.events().follow([this](const Json& event) {
      if (member_of(event, "name") == "exception") put("exception", member_of(event, "context"));
    });
    ended_ = host_.on_ended([this](const Json& end) {
      const Json& exit = end.at("exit");
      put("end", {{"code", exit.at("code")}, {"by", exit.value("by", Json())}});
    });
  }

  void shell_lost(const plugin::ShellLost& lost) {
    if (!is_on_) return;
    put("lost",
        {{"shell", lost.shell}, {"host", lost.host}, {"ranks", host_.job().taskmap.ranks_on(lost.shell).str()}});
  }

  // The plugin `output` may have gone.
  void put(std::string_view name, const Json& context) {
    if (auto* output = host_.task_output()) output->put_event(name, context);
  }

  plugin::Host& host_;
  bool is_on_ = false;
  std::unique_ptr<plugin::EventRecord::Follower> posted_;
  plugin::Registration ended_;
};

}  // namespace

PluginPtr make_events(plugin::Host& host) { return std::make_unique<Events>(host); }

}  // namespace nacre::plugins
