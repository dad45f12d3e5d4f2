// SPDX-License-Identifier: Apache-2.0
//
// log: each message is offered to the topic shell.log, so that a plugin can keep it somewhere else.
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kName = "log";
constexpr const char* kTopic = "shell.log";

class LogPlugin final : public plugin::Plugin {
 public:
  explicit LogPlugin(plugin::Host& host) : Plugin(kName), host_(host) {
    host_.log().add_sink(kName, [this](const LogEntry& entry) { offer(entry); });
  }
  ~LogPlugin() override { host_.log().remove_sink(kName); }

 private:
  // Messages that a handler of shell.log logs go to the other sinks only: see Log::add_sink.
  void offer(const LogEntry& entry) {
    plugin::Host& host = host_;  // a handler may replace this plugin
    if (!host.stack().listens(kTopic)) return;
    plugin::Call call(kTopic);
    call.in = Json{{"rank", host.job().shell_rank},
                   {"level", static_cast<int>(entry.level)},
                   {"component", entry.component},
                   {"file", entry.file},
                   {"line", entry.line},
                   {"message", entry.message}};
    Result<int> called = host.stack().call(call);
    if (!called) host.log().log(Level::warn, kName, "{}", called.error().message);
  }

  plugin::Host& host_;
};

}  // namespace

PluginPtr make_log(plugin::Host& host) { return std::make_unique<LogPlugin>(host); }

}  // namespace nacre::plugins
