// SPDX-License-Identifier: Apache-2.0
#include "lua_fixture.hpp"
#include "script/json.hpp"

namespace {

// The text of a plugin with one handler.
std::string plugin(const std::string& topic, const std::string& body, const std::string& name = "p") {
  return "plugin.register {name = '" + name + "', handlers = {{topic = '" + topic +
         "', fn = function (topic, args)\n" + body + "\nend}}}";
}

}  // namespace

TEST_CASE("a handler is called with its topic") {
  LuaFixture lua;
  CHECK(lua.run(plugin("shell.init", "shell.setenv ('TOPIC', topic)")) == "ok");
  CHECK(lua.env("TOPIC") == "(unset)");
  CHECK(lua.call("shell.init") == "ok 1");
  CHECK(lua.env("TOPIC") == "shell.init");
  CHECK(lua.call("shell.exit") == "ok 0");
}

TEST_CASE("globs match topics, and plugins are called in the order of loading") {
  LuaFixture lua;
  CHECK(lua.run("calls = ''\n" + plugin("shell.*", "calls = calls .. 'a'", "a") +
                plugin("*", "calls = calls .. 'b'", "b") + plugin("shell.init", "calls = calls .. 'c'", "c")) ==
        "ok");
  CHECK(lua.call("shell.init") == "ok 3");
  CHECK(lua.call("shell.exit") == "ok 2");
  CHECK(lua.call("task.exit") == "ok 1");
  CHECK(lua.eval("calls") == "abcabb");
}

TEST_CASE("the last plugin of a name wins, over a builtin too") {
  LuaFixture lua;
  auto builtin = std::make_unique<nacre::plugin::Plugin>("tmpdir");
  int called = 0;
  builtin->on("shell.init", [&called](nacre::plugin::Call&) -> nacre::Result<void> {
    ++called;
    return {};
  });
  lua.host.stack().push(std::move(builtin));
  CHECK(lua.run(plugin("shell.init", "shell.setenv ('BY', 'lua')", "tmpdir")) == "ok");
  CHECK(lua.call("shell.init") == "ok 1");
  CHECK(called == 0);
  CHECK(lua.env("BY") == "lua");
  CHECK(lua.host.stack().find("tmpdir")->origin() == (lua.directory / "rc.lua"));
  CHECK(lua.run(plugin("shell.init", "shell.setenv ('BY', 'second')", "tmpdir")) == "ok");
  CHECK(lua.call("shell.init") == "ok 1");
  CHECK(lua.env("BY") == "second");
}

TEST_CASE("a plugin without a name is known by its place") {
  LuaFixture lua;
  CHECK(lua.run("for i = 1, 2 do\n  plugin.register {handlers = {{topic = 'x', fn = function () end}}}\nend") ==
        "ok");
  REQUIRE(lua.host.stack().plugins().size() == 2);
  CHECK(lua.shorten(lua.host.stack().plugins()[0]->name()) == "rc.lua:2");
  CHECK(lua.shorten(lua.host.stack().plugins()[1]->name()) == "rc.lua:2#2");
}

TEST_CASE("an error in a handler fails the call and names file and line") {
  LuaFixture lua;
  CHECK(lua.run(plugin("shell.init", "local t = nil\nt.x = 1")) == "ok");
  std::string message = lua.call("shell.init");
  CHECK(message.find("plugin 'p': shell.init: rc.lua:3: attempt to index a nil value (local 't')") == 0);
  CHECK(message.find('\n') == std::string::npos);
  CHECK(lua.shorten(lua.host.logged.at(0)) == "debug p: traceback: rc.lua:3: in function <rc.lua:1>");
}

TEST_CASE("what a handler returns decides") {
  LuaFixture lua;
  auto result = [&lua](const std::string& body) {
    CHECK(lua.run(plugin("t", body)) == "ok");
    return lua.call("t");
  };
  for (const char* good : {"", "return nil", "return true", "return 0", "return 1"}) CHECK(result(good) == "ok 1");
  CHECK(result("return false") == "plugin 'p': t: rc.lua:1: the handler returned false");
  CHECK(result("return -1") == "plugin 'p': t: rc.lua:1: the handler returned -1");
  CHECK(result("return false, 'no disk'") == "plugin 'p': t: rc.lua:1: no disk");
  CHECK(result("return 'x'") ==
        "plugin 'p': t: rc.lua:1: a handler returns nothing, a boolean, a number, or a table of "
        "results by name; got a string");
  CHECK(result("return {1, 2}") ==
        "plugin 'p': t: rc.lua:1: a handler returns nothing, a boolean, a number, or a table of "
        "results by name; got a table");
  CHECK(result("return {f = print}") == "plugin 'p': t: rc.lua:1: result.f: a function has no form in JSON");
}

TEST_CASE("arguments go in, and a table that is returned is merged into the results") {
  LuaFixture lua;
  CHECK(lua.run(plugin("taskmap.x", "return {taskmap = args.taskmap .. '!', n = #args.list}")) == "ok");
  nacre::plugin::Call call("taskmap.x");
  call.in = {{"taskmap", "map"}, {"list", {1, 2}}, {"gone", nullptr}};
  call.out = {{"before", 1}, {"n", 0}};
  CHECK(lua.host.stack().call(call).has_value());
  CHECK(call.out == nacre::Json{{"taskmap", "map!"}, {"n", 2}, {"before", 1}});
}

TEST_CASE(
    "a handler that matches exactly is called before a glob of the same plugin; classes match as in glob(7)") {
  LuaFixture lua;
  CHECK(lua.run("local function say (text) return function (topic) shell.setenv (text, topic) end end\n"
                "plugin.register {name = 'p', handlers = {{topic = 'task.*', fn = say 'GLOB'},"
                " {topic = 'task.exit', fn = say 'EXACT'}, {topic = 'shell.[is]*', fn = say 'CLASS'},"
                " {topic = 'shell.los?', fn = say 'ONE'}}}") == "ok");
  for (const char* topic : {"task.exit", "task.init", "shell.init", "shell.lost"}) CHECK(lua.call(topic) == "ok 1");
  CHECK(lua.call("shell.exit") == "ok 0");
  CHECK(lua.env("EXACT") == "task.exit");
  CHECK(lua.env("GLOB") == "task.init");
  CHECK(lua.env("CLASS") == "shell.init");
  CHECK(lua.env("ONE") == "shell.lost");
}

TEST_CASE("shell.lost says which shell is gone, and how grave that is") {
  LuaFixture lua;
  CHECK(lua.run(plugin("shell.lost", "shell.setenv ('LOST', args.shell_rank + 0 .. '/' .. args.severity)")) ==
        "ok");
  nacre::plugin::Call call("shell.lost");
  call.in = {{"shell_rank", 3}, {"severity", 1}};
  CHECK(lua.host.stack().call(call) == 1);
  CHECK(lua.env("LOST") == "3/1");
}

TEST_CASE("shell.log has the message and where it is from as a table") {
  LuaFixture lua;
  CHECK(lua.run(
            plugin("shell.log",
                   "shell.setenv ('LOGGED', topic .. ' ' .. args.level .. ' ' .. args.component .. ' ' .. args.rank"
                   " .. ' ' .. args.file .. ':' .. args.line .. ' ' .. args.message)")) == "ok");
  nacre::plugin::Call call("shell.log");
  call.in = {{"level", 3}, {"component", "wrap"}, {"file", "wrap.cpp"},
             {"line", 7},  {"rank", 0},           {"message", "no ranks"}};
  CHECK(lua.host.stack().call(call) == 1);
  CHECK(lua.env("LOGGED") == "shell.log 3 wrap 0 wrap.cpp:7 no ranks");
}

TEST_CASE("the log names the plugin while its handler runs, and rcpath is that of its file") {
  LuaFixture lua;
  lua.write("sub/plugin.lua",
            plugin("shell.init", "shell.log (topic) shell.setenv ('R', shell.rcpath)", "speaker"));
  CHECK(lua.run("source (shell.rcpath .. '/sub/plugin.lua')") == "ok");
  CHECK(lua.call("shell.init") == "ok 1");
  CHECK(lua.host.logged == std::vector<std::string>{"notice speaker: shell.init"});
  CHECK(lua.env("R") == lua.directory / "sub");
}

TEST_CASE("die in a handler fails the call with an error that is already logged") {
  LuaFixture lua;
  CHECK(lua.run(plugin("shell.init", "shell.die ('enough')", "p") + plugin("shell.init", "calls = 1", "q")) ==
        "ok");
  auto called = lua.host.call("shell.init");
  REQUIRE_FALSE(called.has_value());
  CHECK(called.error().is_logged);
  CHECK(lua.host.deaths == std::vector<std::string>{"1 p: enough"});
  CHECK(lua.eval("calls") == "1");
}

TEST_CASE("a handler may register a plugin, replace its own, and call Lua from within a log sink") {
  LuaFixture lua;
  CHECK(lua.run(plugin("shell.init", plugin("shell.init", "shell.setenv ('WHO', 'new')"))) == "ok");
  CHECK(lua.run(plugin("shell.log", "shell.setenv ('SEEN', topic)", "listener")) == "ok");
  lua.host.log().add_sink("stack", [&lua](const nacre::LogEntry&) { CHECK(lua.call("shell.log") == "ok 1"); });
  CHECK(lua.call("shell.init") == "ok 1");
  CHECK(lua.call("shell.init") == "ok 1");
  CHECK(lua.env("WHO") == "new");
  CHECK(lua.run("coroutine.wrap (function () shell.log ('x') end) ()") == "ok");
  CHECK(lua.env("SEEN") == "shell.log");
}

TEST_CASE("register checks what it is given, and registers nothing if something is wrong") {
  LuaFixture lua;
  auto error = [&lua](const std::string& spec) { return lua.run("plugin.register (" + spec + ")"); };
  CHECK(error("") == "rc.lua:1: plugin.register: argument 1 (spec): expected a table, got no value");
  CHECK(error("{name = 1, handlers = {}}") == "rc.lua:1: plugin.register: name: expected a string, got a number");
  CHECK(error("{name = '', handlers = {}}") == "rc.lua:1: plugin.register: name: is empty");
  CHECK(error("{name = 'x'}") == "rc.lua:1: plugin.register: handlers: expected a table, got nil");
  CHECK(error("{name = 'x', handlers = {}}") == "rc.lua:1: plugin.register: handlers: is empty");
  CHECK(error("{name = 'x', handler = {}}") ==
        "rc.lua:1: plugin.register: unknown key 'handler'; known: name, handlers");
  CHECK(error("{handlers = {1}}") == "rc.lua:1: plugin.register: handlers[1]: expected a table, got a number");
  CHECK(error("{handlers = {{fn = print}}}") ==
        "rc.lua:1: plugin.register: handlers[1].topic: expected a string, got nil");
  CHECK(error("{handlers = {{topic = 'a', fn = print}, {topic = 'b'}}}") ==
        "rc.lua:1: plugin.register: handlers[2].fn: expected a function, got nil");
  CHECK(lua.host.stack().plugins().empty());
}

TEST_CASE("task.* is there in the callbacks of a task only") {
  LuaFixture lua(3);
  lua.host.make_tasks();
  CHECK(lua.run("local x = task.info") == "rc.lua:1: task.info can only be used in a task.* callback");
  CHECK(lua.run("task.getenv ('A')") == "rc.lua:1: task.getenv can only be used in a task.* callback");
  CHECK(lua.run("task.setenv ('A', 1)") == "rc.lua:1: task.setenv can only be used in a task.* callback");
  CHECK(lua.run("task.unsetenv ('A')") == "rc.lua:1: task.unsetenv can only be used in a task.* callback");
  CHECK(lua.run("task.info = 1") == "rc.lua:1: task.info is read-only");
  CHECK(lua.run(plugin("shell.init", "return task.info")) == "ok");
  CHECK(lua.call("shell.init") ==
        "plugin 'p': shell.init: rc.lua:2: task.info can only be used in a task.* callback");
}

TEST_CASE("task.info and the task's environment") {
  LuaFixture lua(3);
  lua.host.environment().set("INHERITED", "1");
  lua.host.make_tasks();
  CHECK(lua.run(plugin("task.init",
                       "local i = task.info\n"
                       "task.setenv ('WHO', i.rank .. '/' .. i.localid .. ' ' .. i.state)\n"
                       "task.setenv ('WHO', 'x', false) task.unsetenv ('INHERITED')\n"
                       "assert (task.getenv ('INHERITED') == nil and task.getenv ('WHO'))")) == "ok");
  CHECK(lua.call_task("task.init", 2) == "ok 1");
  auto& env = lua.host.tasks()[2]->command().env;
  CHECK(env.get("WHO") == "2/2 Init");
  CHECK_FALSE(env.get("INHERITED"));
  CHECK(lua.env("WHO") == "(unset)");
  CHECK(lua.env("INHERITED") == "1");
  CHECK(lua.host.tasks()[1]->command().env.get("INHERITED") == "1");
}

TEST_CASE("once a task runs, its environment can be read only; at its end there is its status") {
  LuaFixture lua(1);
  lua.host.make_tasks();
  auto& task = *lua.host.tasks()[0];
  task.command().env.set("A", "1");
  task.started(4711);
  CHECK(lua.run(plugin("task.fork",
                       "shell.setenv ('GOT', task.getenv ('A') .. task.info.pid)\ntask.setenv ('A', 2)")) == "ok");
  CHECK(lua.call_task("task.fork") == "plugin 'p': task.fork: rc.lua:3: task.setenv: the task has started");
  CHECK(lua.env("GOT") == "14711");
  task.exited(nacre::value::WaitStatus::killed(11), {});
  CHECK(lua.run(plugin("task.exit",
                       "local i = task.info shell.setenv ('END',"
                       " i.state .. ' ' .. i.exitcode .. ' ' .. i.signaled .. ' ' .. i.wait_status)")) == "ok");
  CHECK(lua.call_task("task.exit") == "ok 1");
  CHECK(lua.env("END") == "Exited 139 11 11");
}

TEST_CASE("a task that exits by itself has an exit code and no signal") {
  LuaFixture lua(1);
  lua.host.make_tasks();
  lua.host.tasks()[0]->started(4711);
  lua.host.tasks()[0]->exited(nacre::value::WaitStatus::exited(3), {});
  CHECK(lua.run(plugin("task.exit", "assert (task.info.exitcode == 3 and task.info.signaled == 0)")) == "ok");
  CHECK(lua.call_task("task.exit") == "ok 1");
}

TEST_CASE("the search path is a plain string") {
  LuaFixture lua;
  lua.host.plugin_searchpath() = "/a";
  CHECK(lua.run("plugin.searchpath = plugin.searchpath .. ':' .. '/b'") == "ok");
  CHECK(lua.host.plugin_searchpath() == "/a:/b");
  CHECK(lua.run("plugin.searchpath = {}") == "rc.lua:1: plugin.searchpath: expected a string, got a table");
  CHECK(lua.run("plugin.searchpath = nil") == "rc.lua:1: plugin.searchpath: expected a string, got nil");
}

TEST_CASE("loading what is not there is an error, except by a glob") {
  LuaFixture lua;
  lua.host.plugin_searchpath() = lua.directory;
  CHECK(lua.eval("plugin.load ('*.so')") == "0");
  CHECK(lua.eval("plugin.load {file = '*.so', conf = {a = 1}}") == "0");
  CHECK(lua.run("plugin.load ('nope.so')").find("rc.lua:1: plugin.load: nope.so: no such file") == 0);
  lua.write("text.so", "no ELF");
  CHECK(lua.run("plugin.load {file = 'text.so'}").find("rc.lua:1: plugin.load: ") == 0);
  CHECK(lua.host.stack().plugins().empty());
}

TEST_CASE("load checks what it is given") {
  LuaFixture lua;
  CHECK(lua.run("plugin.load ()") ==
        "rc.lua:1: plugin.load: argument 1 (spec): expected a string or a table, got no value");
  CHECK(lua.run("plugin.load {}") == "rc.lua:1: plugin.load: file: expected a string, got nil");
  CHECK(lua.run("plugin.load {'x.so'}") == "rc.lua:1: plugin.load: unknown key a number; known: file, conf");
  CHECK(lua.run("plugin.load {file = 'x', config = {}}") ==
        "rc.lua:1: plugin.load: unknown key 'config'; known: file, conf");
  CHECK(lua.run("plugin.load {file = '*', conf = {1}}") ==
        "rc.lua:1: plugin.load: conf: expected a table with names as keys, got an array");
  CHECK(lua.run("plugin.load {file = '*', conf = 'x'}") ==
        "rc.lua:1: plugin.load: conf: expected a table with names as keys, got a string");
  CHECK(lua.run("plugin.load {file = '*', conf = {f = print}}") ==
        "rc.lua:1: plugin.load: conf.f: a function has no form in JSON");
}
