// SPDX-License-Identifier: Apache-2.0
#include "plugin/stack.hpp"

#include "catch.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

// A handler that leaves its mark.
Handler mark(const char* text) {
  return [text](Call& call) -> Result<void> {
    call.out["by"] = text;
    return {};
  };
}

std::string answer(const Plugin& plugin, const std::string& topic) {
  const Handler* handler = plugin.match(topic);
  if (handler == nullptr) return "none";
  Call call(topic);
  return (*handler)(call) ? call.out["by"].get<std::string>() : "error";
}

}  // namespace

TEST_CASE("a handler's topic is a glob") {
  Plugin plugin("p");
  plugin.on("task.*", mark("glob"));
  CHECK(answer(plugin, "task.init") == "glob");
  CHECK(answer(plugin, "task.") == "glob");
  CHECK(answer(plugin, "tasks.init") == "none");
  CHECK(answer(plugin, "shell.init") == "none");
}

TEST_CASE("the very text goes before globs, globs go in the order they were added") {
  Plugin plugin("p");
  plugin.on("*", mark("all"));
  plugin.on("task.*", mark("task"));
  plugin.on("task.init", mark("init"));
  CHECK(answer(plugin, "task.init") == "init");
  CHECK(answer(plugin, "task.exit") == "all");
}

TEST_CASE("a second handler for the same text replaces the first") {
  Plugin plugin("p");
  plugin.on("x", mark("first"));
  plugin.on("x", mark("second"));
  CHECK(answer(plugin, "x") == "second");
  CHECK(plugin.subscriptions().size() == 1);
}

TEST_CASE("off takes the exact text, not what it matches") {
  Plugin plugin("p");
  plugin.on("task.*", mark("glob"));
  plugin.on("task.init", mark("init"));
  plugin.off("task.init");
  CHECK(answer(plugin, "task.init") == "glob");
  plugin.off("task.*");
  CHECK(answer(plugin, "task.init") == "none");
  plugin.on("task.init", mark("again"));
  CHECK(answer(plugin, "task.init") == "again");
}

TEST_CASE("each change has its version") {
  Plugin plugin("p");
  unsigned before = plugin.version();
  plugin.on("x", mark("x"));
  CHECK(plugin.version() > before);
  before = plugin.version();
  plugin.off("x");
  CHECK(plugin.version() > before);
}
