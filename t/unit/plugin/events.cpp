// SPDX-License-Identifier: Apache-2.0
#include "plugin/events.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

struct World {
  Plugin& add(const char* name) {
    stack.push(std::make_unique<Plugin>(name));
    return *stack.plugins().back();
  }
  Stack stack;
};

const TasksExited kTwo(*value::Idset::parse("1-2"), exits::Record::of(value::WaitStatus::exited(3)));

}  // namespace

TEST_CASE("an event is a value for who asks for it, and has members for who does not, as doc/man has them") {
  World world;
  std::vector<std::string> got;
  world.add("first").on<TasksExited>([&](const TasksExited& exited) { got.push_back(exited.ranks.str()); });
  world.add("second").on("job.tasks-*", [&](Call& call) { got.push_back(dump_json(call.in)); });
  Call call(TasksExited::kTopic, kTwo);
  CHECK(world.stack.call(call).value() == 2);
  CHECK(got == std::vector<std::string>{"1-2", R"({"ranks":"1-2","record":"x3","status":768})"});
}

TEST_CASE("no members are made of an event that all take as a value") {
  World world;
  world.add("first").on<TasksExited>([](const TasksExited&) {});
  Call call(TasksExited::kTopic, kTwo);
  CHECK(world.stack.call(call).value() == 1);
  CHECK(call.in.empty());
}

TEST_CASE("a call that a plugin makes with the members of an event is that event; with others it is an error") {
  World world;
  std::vector<std::string> got;
  world.add("first").on<ShellLost>([&](const ShellLost& lost) {
    got.push_back(std::to_string(lost.shell) + lost.host + (lost.ends_job ? " ends" : ""));
  });
  for (const ShellLost& each : {ShellLost(3, "n3", false), ShellLost(4, "n4", true)}) {
    Call call(ShellLost::kTopic);
    call.in = each.members();
    CHECK(world.stack.call(call));
  }
  CHECK(got == std::vector<std::string>{"3n3", "4n4 ends"});
  Call call(ShellLost::kTopic);
  call.in["shell_rank"] = "x";
  auto refused = world.stack.call(call);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "plugin 'first': shell.lost: shell_rank: expected an integer from 0 to 4294967295, got \"x\"");
}

TEST_CASE("each event survives its members") {
  auto exited = TasksExited::parse(TasksExited(*value::Idset::parse("0,7"), exits::Record::lost()).members());
  REQUIRE(exited);
  CHECK(exited->ranks.str() == "0,7");
  CHECK(exited->record.kind() == exits::Record::Kind::lost);
  CHECK(exited->members().at("lost") == true);
  CHECK(ShellLeft::parse(ShellLeft(2, "n2").members())->host == "n2");
  CHECK(ShellJoined::parse(ShellJoined(5, "n5").members())->shell == 5);
}

TEST_CASE("a handler may do without the call, and without a result") {
  World world;
  int count = 0;
  Plugin& plugin = world.add("first");
  plugin.on("a", [&] { ++count; });
  plugin.on("b", [&](Call& call) { call.out["x"] = ++count; });
  plugin.on("c", []() -> Result<void> { return invalid("no"); });
  for (const char* topic : {"a", "b"}) {
    Call call(topic);
    CHECK(world.stack.call(call));
  }
  CHECK(count == 2);
  Call call("c");
  CHECK(world.stack.call(call).error().message == "plugin 'first': c: no");
}
