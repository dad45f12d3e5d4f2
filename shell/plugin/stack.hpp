// SPDX-License-Identifier: Apache-2.0
//
// The plugins of a shell, in the order in which they were loaded. If two have the same name the last one loaded
// counts: the older one is removed with all its handlers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "plugin/plugin.hpp"

namespace nacre::plugin {

class Stack {
 public:
  Stack() = default;
  ~Stack();  // in reverse order of loading

  void push(std::unique_ptr<Plugin> plugin);
  [[nodiscard]] const Plugin* find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::unique_ptr<Plugin>>& plugins() const { return plugins_; }

  // Calls `call.topic` on each plugin that has a handler for it, in order; all of them, even if one fails. Returns
  // how many were called, or the first error: `plugin 'NAME': TOPIC: why`. Handlers may load plugins, and make
  // calls themselves.
  Result<int> call(Call& call);
  [[nodiscard]] bool listens(const std::string& topic);

  // The handler that runs, the innermost one; null: none runs.
  struct Running {
    const Plugin* plugin;
    const std::string* topic;
  };
  [[nodiscard]] const Running* running() const { return running_; }

 private:
  struct Listener {
    Plugin* plugin;
    const Handler* handler;
  };
  const std::vector<Listener>& listeners(const std::string& topic);
  [[nodiscard]] unsigned version() const;
  void drop_replaced();

  std::vector<std::unique_ptr<Plugin>> plugins_;
  std::vector<std::unique_ptr<Plugin>> replaced_;  // kept until no call runs: a handler may replace its own plugin
  std::unordered_map<std::string, std::vector<Listener>> cache_;
  unsigned cached_version_ = 0;
  int depth_ = 0;
  const Running* running_ = nullptr;
};

}  // namespace nacre::plugin
