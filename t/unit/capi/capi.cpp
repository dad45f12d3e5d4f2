// SPDX-License-Identifier: Apache-2.0
//
// The C API, from the side of plugins written in C: dso/probe_*.c check what they get; here is what the host sees.
#include "catch.hpp"

#include "capi/capi.hpp"
#include "probed.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT
using nacre::plugin::Probed;

using Lines = std::vector<std::string>;

TEST_CASE("C: a plugin's identity, handlers and attached data") {
  Probed probed("plugin");
  for (const char* topic : {"probe.identity", "probe.handlers", "probe.attached", "probe.no-configuration"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: a plugin's configuration") {
  Probed probed("plugin", {{"mode", "fast"}, {"level", 7}});
  probed.passes("probe.configuration");
}

TEST_CASE("C: the arguments of a call go in and come out") {
  Probed probed("plugin");
  Call call("probe.arguments");
  call.in = {{"number", 5}, {"text", "five"}};
  call.out = {{"old", 1}};
  probed.judge(call.topic, probed.host.stack().call(call));
  CHECK(call.out == Json{{"old", 1}, {"text", "five"}, {"list", {1, 2}}, {"flag", true}});
  CHECK(call.in == Json{{"number", 5}, {"text", "five"}});

  call.topic = "probe.replaced-arguments";
  probed.judge(call.topic, probed.host.stack().call(call));
  CHECK(call.out == Json{{"new", 2}});

  call.topic = "probe.cleared-arguments";
  probed.judge(call.topic, probed.host.stack().call(call));
  CHECK(call.out == Json::object());
}

TEST_CASE("C: plugins call each other") {
  Probed probed("plugin");
  probed.passes("probe.nested-calls");
  CHECK(probed.host.logged == Lines{"error : plugin 'probe-plugin': probe.refuse: the plugin's handler failed"});
}

TEST_CASE("C: what a plugin leaves attached is freed after it, without a trace") {
  Probed probed("plugin");
  probed.passes("probe.leave-aux-behind");
}

TEST_CASE("C: shell options") {
  Probed probed("shell");
  probed.host.options().set("color", "red");
  probed.host.options().set("nested.n", 3);
  probed.passes("probe.options");
  CHECK(probed.host.options().json() == Json{{"nested", {{"n", 3}}}, {"made", {{"up", {{"yes", true}}}}}});
}

TEST_CASE("C: the job's environment") { Probed("shell").passes("probe.environment"); }

TEST_CASE("C: what a plugin can know about shell, job and ranks") { Probed("shell").passes("probe.info"); }

TEST_CASE("C: data attached to the shell") { Probed("shell").passes("probe.aux"); }

TEST_CASE("C: completion references, signals, event context") {
  Probed probed("shell");
  probed.passes("probe.acting");
  CHECK(probed.host.holds == std::map<std::string, int>{{"work-7", 1}});
  CHECK(probed.host.signals == std::vector<int>{SIGUSR1});
  CHECK(probed.host.event_context["shell.init"] == Json{{"who", "probe"}, {"n", 2}});
}

TEST_CASE("C: handlers of messages must be given") {
  Probed probed("shell");
  probed.passes("probe.no-callbacks");
}

TEST_CASE("C: tasks, before there are any, all of them, and one") {
  Probed probed("task");
  probed.passes("probe.before-tasks");
  probed.host.make_tasks();
  probed.passes("probe.all-tasks");
  probed.passes_for_task("probe.current", 2);
  probed.host.tasks()[2]->exited(value::WaitStatus::exited(3), rusage{});
  probed.passes_for_task("probe.ended", 2);
}

TEST_CASE("C: a task's command, and a command of one's own") {
  Probed probed("task");
  probed.host.make_tasks();
  probed.passes_for_task("probe.command", 2);
  const task::Command& command = probed.host.tasks()[2]->command();
  CHECK(command.argv == Lines{"first", "last", "007", "end"});
  CHECK(command.setup.cwd == "/tmp");
  CHECK(command.env.get("TWO") == "2");
  CHECK(probed.host.tasks()[1]->command().argv == Lines{"true"});
  probed.passes("probe.own-command");
}

TEST_CASE("C: log macros and their levels") {
  Probed probed("log");
  probed.passes("probe.levels");
  CHECK(probed.host.logged == Lines{"trace probe-log: t 1", "debug probe-log: d", "notice probe-log: n x",
                                    "warn probe-log: w", "notice probe-log: two", "notice probe-log: lines",
                                    "error other: reserved", "trace : beyond"});
  probed.host.logged.clear();
  probed.passes("probe.errors");
  CHECK(probed.host.logged == Lines{"error probe-log: e", "error probe-log: open f: Permission denied",
                                    "error probe-log: get: Cannot allocate memory", "error c: plain"});
}

TEST_CASE("C: giving up, and raising exceptions") {
  Probed probed("log");
  probed.passes("probe.fatal");
  CHECK(probed.host.deaths == Lines{"3 probe-log: no way", "4 probe-log: write: No space left on device"});
  probed.passes("probe.exceptions");
  REQUIRE(probed.host.exceptions.size() == 6);
  CHECK(probed.host.exceptions[0].type == "probe");
  CHECK(probed.host.exceptions[0].severity == 2);
  CHECK(probed.host.exceptions[0].message == "note 5");
  CHECK_FALSE(probed.host.exceptions[0].status);
  CHECK(probed.host.exceptions[1].type == "exec");
  CHECK(probed.host.exceptions[1].severity == 0);
  CHECK(probed.host.exceptions[1].status == value::WaitStatus::killed(SIGKILL));
  CHECK(probed.host.exceptions[1].message == "task 1");
  CHECK_FALSE(probed.host.exceptions[2].status);
  const auto& of_task = probed.host.exceptions[3];
  CHECK(of_task.status == value::WaitStatus::killed(SIGKILL));
  CHECK(of_task.message == "because of 2");
  REQUIRE(of_task.task);
  CHECK(of_task.task->rank == 2);
  CHECK_FALSE(of_task.task->record.kind() == exits::Record::Kind::ended);
  for (std::size_t i : {4U, 5U}) {  // of a job of four tasks
    CHECK_FALSE(probed.host.exceptions[i].status);
    CHECK_FALSE(probed.host.exceptions[i].task);
  }
}

TEST_CASE("C: asking for a shrink, and its answers") {
  Probed probed("shrink");
  probed.passes("probe.ask");
  REQUIRE(probed.host.shrink_orders.size() == 2);
  CHECK(probed.host.shrink_orders[0].json() ==
        Json::parse(R"({"hosts": "n[1-2]", "signal": 10, "grace": 1.5, "tasks": "end", "force": false})"));
  CHECK(probed.host.shrink_orders[1].json() ==
        Json::parse(R"({"count": 2, "signal": 15, "tasks": "end", "force": true})"));
  probed.host.logged.clear();
  probed.host.shrunk(Json{{"shells", "1"}}, false);
  CHECK(probed.host.logged.empty());
  probed.host.shrunk(Json{{"gone", "1"}}, true);
  probed.host.shrunk(Error{EBUSY, "there are tasks"}, true);
  CHECK(probed.host.logged ==
        Lines{R"(notice probe-shrink: one: 0 {"gone":"1"})", "notice probe-shrink: one: 16 there are tasks"});
}

TEST_CASE("C: log levels, of all and of one destination") {
  Probed probed("log");
  probed.passes("probe.set-level");
  CHECK(probed.host.logged == Lines{"warn probe-log: above"});
}

TEST_CASE("C: templates") {
  Probed probed("mustache");
  probed.passes("probe.of-the-job");
  probed.passes("probe.by-rank");
  probed.host.make_tasks();
  probed.passes_for_task("probe.of-a-task", 2);
}

TEST_CASE("C: the topology comes from whichever plugin has it, once") {
  Probed probed("shell");
  probed.passes("probe.no-topology");
  int calls = 0;
  auto plugin = std::make_unique<Plugin>("topology");
  plugin->on("hwloc.xml", [&](Call& call) {
    ++calls;
    call.out["xml"] = "<topology/>";
    return Result<void>();
  });
  probed.host.stack().push(std::move(plugin));
  probed.passes("probe.topology");
  CHECK(calls == 1);
}

// Sets of ids, task maps and lists of hosts, from the side of plugins written in C: see dso/probe_*.c.

TEST_CASE("C: sets of ids") {
  Probed probed("idset");
  for (const char* topic :
       {"probe.names", "probe.creating", "probe.copying", "probe.changing", "probe.growing", "probe.growing-full",
        "probe.asking", "probe.combining", "probe.adding", "probe.storing", "probe.storing-more"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: the text of sets of ids") {
  Probed probed("idset_text");
  for (const char* topic : {"probe.decoding", "probe.decoding-grows", "probe.decoding-part",
                            "probe.decoding-as-created", "probe.decoding-nothing", "probe.decoding-facts",
                            "probe.decoding-into", "probe.long-errors", "probe.encoding"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: task maps") {
  Probed probed("taskmap");
  for (const char* topic : {"probe.of-the-job", "probe.forms", "probe.queries", "probe.building", "probe.vectors",
                            "probe.limits", "probe.taskids"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: lists of hosts") {
  Probed probed("hostlist");
  for (const char* topic : {"probe.of-the-job", "probe.text", "probe.cursor", "probe.finding", "probe.appending",
                            "probe.removing", "probe.sorting"}) {
    probed.passes(topic);
  }
}

namespace {

// Frees by adding to what it points to.
void add_one(void* value) { ++*static_cast<int*>(value); }

struct Order {
  std::vector<int>* freed;
  int id;
};
void note(void* value) {
  auto* order = static_cast<Order*>(value);
  order->freed->push_back(order->id);
}

}  // namespace

TEST_CASE("an aux item is freed once: when replaced, removed, or at the end") {
  int a = 0;
  int b = 0;
  int c = 0;
  {
    AuxItems items;
    CHECK(items.set("key", &a, add_one));
    CHECK(items.get("key") == &a);
    CHECK(items.set("key", &b, add_one));
    CHECK(a == 1);
    CHECK(items.set("key", nullptr, nullptr));
    CHECK(b == 1);
    CHECK(items.get("key") == nullptr);
    CHECK(items.set(nullptr, &c, add_one));
    CHECK(items.get("") == nullptr);
    CHECK(c == 0);
  }
  CHECK(a == 1);
  CHECK(b == 1);
  CHECK(c == 1);
}

TEST_CASE("aux items without a function belong to their owner") {
  int a = 0;
  AuxItems items;
  CHECK(items.set("key", &a, nullptr));
  items.remove(&a);
  CHECK(items.get("key") == nullptr);
  CHECK(a == 0);
}

TEST_CASE("aux items go newest first") {
  std::vector<int> freed;
  Order one{&freed, 1};
  Order two{&freed, 2};
  Order three{&freed, 3};
  AuxItems items;
  CHECK(items.set("a", &one, note));
  CHECK(items.set(nullptr, &two, note));
  CHECK(items.set("c", &three, note));
  items.remove(&one);
  items.clear();
  CHECK(freed == std::vector<int>{1, 3, 2});
}

TEST_CASE("aux items refuse what could never be freed or found") {
  int a = 0;
  AuxItems items;
  CHECK(items.set(nullptr, nullptr, nullptr).error().code == EINVAL);
  CHECK(items.set("key", nullptr, add_one).error().code == EINVAL);
  CHECK(items.set(nullptr, &a, nullptr).error().code == EINVAL);
}

// Wrong calls of plugins in C: see dso/probe_bad_input.c.

TEST_CASE("C: formats that are malformed, or do not match, fail each call alike") {
  Probed probed("bad_input");
  probed.host.options().set("color", "red");
  probed.host.options().set("nested.n", 3);
  Json before = probed.host.options().json();
  for (const char* topic :
       {"probe.formats-to-unpack", "probe.formats-that-do-not-match", "probe.formats-to-pack"}) {
    probed.passes(topic);
  }
  CHECK(probed.host.options().json() == before);
  CHECK(probed.host.event_context.empty());
}

TEST_CASE("C: why a format does not match is in the debug log") {
  Probed probed("bad_input");
  probed.host.options().set("color", "red");
  (void)probed.host.call("probe.formats-that-do-not-match");
  REQUIRE_FALSE(probed.host.logged.empty());
  CHECK(probed.host.logged.front() == "debug : option color: Expected integer, got string");
}

TEST_CASE("C: another plugin's handler that fails is an error of the call that asked for it") {
  Probed probed("bad_input");
  auto plugin = std::make_unique<Plugin>("refuses");
  for (const char* topic : {"hwloc.xml", "shell.log-setlevel", "mustache.render.refused", "refused"}) {
    plugin->on(topic, [](Call&) -> Result<void> { return invalid("no luck"); });
  }
  probed.host.stack().push(std::move(plugin));
  probed.passes("probe.refused");
  CHECK(probed.host.logged.back() == "error : plugin 'refuses': refused: no luck");
}

TEST_CASE("C: attached data is freed once, also by functions that attach and remove") {
  Probed("bad_input").passes("probe.freeing");
}

TEST_CASE("C: a handler may remove handlers, itself too, while it runs") {
  Probed probed("bad_input");
  probed.passes("probe.changing-handlers");
  CHECK(probed.host.call("probe.changing-handlers") == 0);
}

TEST_CASE("C: outside of a topic of a task there is no current task") {
  Probed probed("bad_input");
  probed.host.make_tasks();
  probed.passes("probe.outside-of-tasks");
}
