// SPDX-License-Identifier: Apache-2.0
//
// The commands of tasks after a plugin has changed them.
#pragma once

#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

namespace nacre::kit {

// Four tasks, each with the command `run -x`, under the plugin that `make` makes, which reads the option `name`.
class CommandsOfTasks {
 public:
  CommandsOfTasks(plugins::PluginPtr (*make)(plugin::Host&), const char* name, const char* option) : name_(name) {
    host_.stack().push(make(host_));
    host_.make_tasks();
    host_.options().set(name, Json::parse(option));
    if (Result<int> called = host_.call("shell.init"); !called) error_ = called.error().message;
  }

  std::vector<std::string> of_task(std::size_t task) {
    REQUIRE(error_.empty());
    task::Command& command = host_.tasks()[task]->command();
    command.argv = {"run", "-x"};
    REQUIRE(host_.call_task("task.init", task));
    return command.argv;
  }

  [[nodiscard]] const task::Command& command(std::size_t task) { return host_.tasks()[task]->command(); }

  // The error of shell.init, without the plugin's name before it.
  [[nodiscard]] std::string error() const {
    std::string start = "plugin '" + name_ + "': shell.init: ";
    REQUIRE(error_.starts_with(start));
    return error_.substr(start.size());
  }

 private:
  std::string name_;
  FakeHost host_{4};
  std::string error_;
};

}  // namespace nacre::kit
