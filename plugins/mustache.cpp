// SPDX-License-Identifier: Apache-2.0
//
// mustache: renders {{tags}} (see tags.hpp) in the arguments of the tasks, and in the variables of the option
// `env-expand`, an object of templates by name. {{task.argument}} is the task's element of the option `arguments`,
// an array with an element for each rank. A variable's tags are rendered for the job at shell.init, and those of a
// task for each task.

#include "plugin/tags.hpp"
#include "plugins/builtins.hpp"
#include "value/template.hpp"

namespace nacre::plugins {
namespace {

class Mustache final : public plugin::Plugin {
 public:
  explicit Mustache(plugin::Host& host) : Plugin("mustache"), host_(host) {
    on("shell.init", [this]() -> Result<void> {
      CHECK_OK(check_arguments());
      return expand();
    });
    on("task.init", [this] { return render(*host_.current_task()); });
  }

 private:
  Result<void> check_arguments() {
    auto option = host_.options().at("arguments");
    if (!option) return {};
    if (!option->json().is_array()) return option->expected("a list of texts, one for each task");
    for (const JsonAt& each : TRY(option->elements())) CHECK_OK(each.string());
    if (option->json().size() == host_.job().tasks()) return {};
    return option->error(fmt::format("it has {} elements, and the job {} tasks: one for each is needed",
                                     option->json().size(), host_.job().tasks()));
  }

  Result<void> expand() {
    auto option = host_.options().at("env-expand");
    if (!option) return {};
    for (const auto& [name, value] : TRY(option->members())) {
      std::string text = TRY(in(value.path(), plugin::render_tags(host_, TRY(value.string()))));
      CHECK_OK(set(host_.environment(), name, text));
      if (value::has_tags(text)) of_tasks_.emplace_back(name, text);
    }
    return {};
  }

  Result<void> render(task::Task& task) {
    const plugin::TagScope scope{.task = &task};
    std::vector<std::string>& arguments = task.command().argv;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!value::has_tags(arguments[i])) continue;
      arguments[i] = TRY(in(fmt::format("argument {}", i), plugin::render_tags(host_, arguments[i], scope)));
    }
    for (const auto& [name, text] : of_tasks_) {
      CHECK_OK(
          set(task.command().env, name, TRY(in("env-expand." + name, plugin::render_tags(host_, text, scope)))));
    }
    return {};
  }

  static Result<void> set(job::Environment& environment, const std::string& name, const std::string& value) {
    CHECK_OK(in("env-expand", job::Environment::check(name, value)));
    environment.set(name, value);
    return {};
  }

  plugin::Host& host_;
  std::vector<std::pair<std::string, std::string>> of_tasks_;  // variables that still have tags
};

}  // namespace

PluginPtr make_mustache(plugin::Host& host) { return std::make_unique<Mustache>(host); }

}  // namespace nacre::plugins
