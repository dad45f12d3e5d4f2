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

namespace {

using Names = std::vector<std::string>;

// A plugin that notes its `mark` for each call, and for its end.
class Noting : public Plugin {
 public:
  Noting(const char* name, const char* mark, Names& notes, const char* topic = "topic")
      : Plugin(name), mark_(mark), notes_(notes) {
    on(topic, [this](Call&) -> Result<void> {
      notes_.emplace_back(mark_);
      return {};
    });
  }
  ~Noting() override { notes_.push_back(std::string("~") + mark_); }

 private:
  const char* mark_;
  Names& notes_;
};

std::unique_ptr<Plugin> failing(const char* name, const char* message) {
  auto plugin = std::make_unique<Plugin>(name);
  plugin->on("topic", [message](Call&) -> Result<void> { return Error{EPERM, message}; });
  return plugin;
}

Result<int> call(Stack& stack, std::string_view topic) {
  Call made(topic);
  return stack.call(made);
}

}  // namespace

TEST_CASE("plugins are called in the order they were loaded, and go in reverse") {
  Names notes;
  {
    Stack stack;
    stack.push(std::make_unique<Noting>("a", "a", notes));
    stack.push(std::make_unique<Noting>("b", "b", notes));
    stack.push(std::make_unique<Noting>("deaf", "deaf", notes, "other"));
    CHECK(call(stack, "topic") == 2);
    CHECK(call(stack, "nobody") == 0);
    CHECK(stack.listens("topic"));
    CHECK_FALSE(stack.listens("nobody"));
  }
  CHECK(notes == Names{"a", "b", "~deaf", "~b", "~a"});
}

TEST_CASE("the last plugin of a name wins, and stands at the end") {
  Names notes;
  Stack stack;
  stack.push(std::make_unique<Noting>("a", "old", notes));
  stack.push(std::make_unique<Noting>("b", "b", notes));
  CHECK(call(stack, "topic") == 2);
  stack.push(std::make_unique<Noting>("a", "new", notes));
  CHECK(call(stack, "topic") == 2);
  CHECK(notes == Names{"old", "b", "~old", "b", "new"});
  REQUIRE(stack.find("a") != nullptr);
  CHECK(stack.find("a") == stack.plugins().back().get());
  CHECK(stack.find("c") == nullptr);
}

TEST_CASE("an error stops no other plugin; the first is the call's") {
  Names notes;
  Stack stack;
  stack.push(failing("one", "first"));
  stack.push(failing("two", "second"));
  stack.push(std::make_unique<Noting>("c", "c", notes));
  Result<int> result = call(stack, "topic");
  REQUIRE_FALSE(result);
  CHECK(result.error().message == "plugin 'one': topic: first");
  CHECK(result.error().code == EPERM);
  CHECK(notes == Names{"c"});
}

TEST_CASE("what a plugin puts out, the next one sees") {
  Stack stack;
  for (const char* name : {"a", "b"}) {
    auto plugin = std::make_unique<Plugin>(name);
    plugin->on("topic", [](Call& each) -> Result<void> {
      each.out["n"] = each.out.value("n", 0) + each.in.at("step").get<int>();
      return {};
    });
    stack.push(std::move(plugin));
  }
  Call made("topic");
  made.in["step"] = 5;
  CHECK(stack.call(made) == 2);
  CHECK(made.out == Json{{"n", 10}});
}

TEST_CASE("a handler may subscribe, and load plugins, for the next call") {
  Names notes;
  Stack stack;
  auto plugin = std::make_unique<Plugin>("loader");
  Plugin* loader = plugin.get();
  loader->on("topic", [&](Call&) -> Result<void> {
    loader->on("later", [](Call&) -> Result<void> { return {}; });
    stack.push(std::make_unique<Noting>("loaded", "loaded", notes));
    return {};
  });
  stack.push(std::move(plugin));
  CHECK_FALSE(stack.listens("later"));
  CHECK(call(stack, "topic") == 1);
  CHECK(notes.empty());
  CHECK(stack.listens("later"));
  loader->off("topic");
  CHECK(call(stack, "topic") == 1);
  CHECK(notes == Names{"loaded"});
}

TEST_CASE("a handler may replace its own plugin: it lives until the call ends") {
  Names notes;
  Stack stack;
  auto plugin = std::make_unique<Noting>("self", "old", notes, "unused");
  plugin->on("topic", [&](Call&) -> Result<void> {
    stack.push(std::make_unique<Noting>("self", "new", notes));
    notes.emplace_back("still here");
    return {};
  });
  stack.push(std::move(plugin));
  CHECK(call(stack, "topic") == 1);
  CHECK(notes == Names{"still here", "~old"});
  CHECK(call(stack, "topic") == 1);
  CHECK(notes == Names{"still here", "~old", "new"});
}

TEST_CASE("a handler may make calls itself") {
  Names notes;
  Stack stack;
  auto plugin = std::make_unique<Plugin>("outer");
  plugin->on("outer", [&](Call&) -> Result<void> {
    CHECK_OK(call(stack, "topic"));
    return {};
  });
  stack.push(std::move(plugin));
  stack.push(std::make_unique<Noting>("inner", "inner", notes));
  CHECK(call(stack, "outer") == 1);
  stack.push(failing("bad", "why"));
  CHECK(call(stack, "outer").error().message == "plugin 'outer': outer: plugin 'bad': topic: why");
}

TEST_CASE("a plugin that is replaced may make calls as it goes") {
  struct Talker : Plugin {
    Talker(Stack& of_stack, int& count) : Plugin("talker"), stack(of_stack), gone(count) {}
    ~Talker() override {
      ++gone;
      Call last_words("shell.log");
      (void)stack.call(last_words);
    }
    Stack& stack;
    int& gone;
  };
  int gone = 0;
  Stack stack;
  auto talker = std::make_unique<Talker>(stack, gone);
  talker->on("shell.init", [&](Call&) -> Result<void> {
    stack.push(std::make_unique<Plugin>("talker"));
    return {};
  });
  stack.push(std::move(talker));
  Call call("shell.init");
  CHECK(stack.call(call) == 1);
  CHECK(gone == 1);
  stack.push(std::make_unique<Talker>(stack, gone));
  stack.push(std::make_unique<Plugin>("talker"));
  CHECK(gone == 2);
}

TEST_CASE("a handler that throws is an error of its plugin; of one that only tells it is reported, and is none") {
  std::string reported;
  when_thrown([&](const Component* component, std::string_view what) {
    reported = component->name + ": " + std::string(what);
  });
  const Component telling{"usage", false}, vital{"output", true};
  for (const Component* component : {&telling, &vital}) {
    Names notes;
    Stack stack;
    auto plugin = std::make_unique<Plugin>(component->name);
    plugin->on("topic", [](Call&) -> Result<void> { throw std::runtime_error("broken"); });
    plugin->set_component(component);
    stack.push(std::move(plugin));
    stack.push(std::make_unique<Noting>("after", "after", notes));
    auto called = call(stack, "topic");
    CHECK(called.has_value() == !component->is_vital);
    if (!called) CHECK(called.error().message == "plugin 'output': topic: internal error: broken");
    CHECK(notes == Names{"after"});
  }
  when_thrown(nullptr);
  CHECK(reported == "usage: internal error: broken");
}
