// SPDX-License-Identifier: Apache-2.0
#include "core/shell.hpp"

#include "catch.hpp"

using namespace nacre;
using core::misspelt_topics;

namespace {

using Lines = std::vector<std::string>;

Lines of_plugin(std::initializer_list<const char*> topics, std::string origin = "my.lua:1") {
  plugin::Stack stack;
  auto made = std::make_unique<plugin::Plugin>("mine", std::move(origin));
  for (const char* topic : topics) made->on(topic, [](plugin::Call&) -> Result<void> { return {}; });
  stack.push(std::move(made));
  return misspelt_topics(stack);
}

}  // namespace

TEST_CASE("a plugin that listens to a misspelt topic is named, with the nearest topic if it is near") {
  CHECK(of_plugin({"shell.inti"}) == Lines{"plugin 'mine' (my.lua:1) listens to 'shell.inti', which no shell ever "
                                           "calls; did you mean 'shell.init'?"});
  CHECK(of_plugin({"shell.whatever"}) ==
        Lines{"plugin 'mine' (my.lua:1) listens to 'shell.whatever', which no shell "
              "ever calls; nacre-shell-plugins(7) has all topics"});
  CHECK(of_plugin({"tsk.*", "task.*", "task.ext"}).size() == 2);
}

TEST_CASE("topics of other plugins, those of Flux, and builtin plugins are not") {
  CHECK(of_plugin({"shell.init", "mine.reload", "mine.*", "shell.reconnect", "taskmap.x", "*"}).empty());
  CHECK(of_plugin({"shell.inti"}, "builtin").empty());
}
