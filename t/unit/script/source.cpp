// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include "lua_fixture.hpp"

TEST_CASE("rcpath is the directory of the file that runs, and comes back after a nested one") {
  LuaFixture lua;
  lua.write("sub/inner.lua", "shell.setenv ('INNER', shell.rcpath)");
  CHECK(lua.run("shell.setenv ('BEFORE', shell.rcpath) source (shell.rcpath .. '/sub/inner.lua')"
                " shell.setenv ('AFTER', shell.rcpath)") == "ok");
  CHECK(lua.env("BEFORE") == lua.directory);
  CHECK(lua.env("INNER") == lua.directory / "sub");
  CHECK(lua.env("AFTER") == lua.directory);
}

TEST_CASE("rcpath comes back after an error that the script catches") {
  LuaFixture lua;
  lua.write("sub/inner.lua", "error ('boom')");
  CHECK(
      lua.run("ok, why = pcall (source, shell.rcpath .. '/sub/inner.lua') shell.setenv ('AFTER', shell.rcpath)") ==
      "ok");
  CHECK(lua.env("AFTER") == lua.directory);
  CHECK(lua.shorten(lua.eval("why")) == "sub/inner.lua:1: boom");
}

TEST_CASE("rcpath is absolute, though the file was given by a relative name") {
  LuaFixture lua;
  std::string path = std::filesystem::relative(lua.write("rc.lua", "shell.setenv ('R', shell.rcpath)"));
  CHECK(path.front() != '/');
  CHECK(lua.interpreter->run_file(path).has_value());
  CHECK(lua.env("R") == lua.directory);
}

TEST_CASE("a glob sources all matches in order, or none") {
  LuaFixture lua;
  lua.write("d/b.lua", "list = (list or '') .. 'b'");
  lua.write("d/a.lua", "list = (list or '') .. 'a'");
  lua.write("d/c.txt", "list = 'c'");
  CHECK(lua.run("source (shell.rcpath .. '/d/*.lua') source (shell.rcpath .. '/none/*.lua')") == "ok");
  CHECK(lua.eval("list") == "ab");
}

TEST_CASE("a file that is missing is an error of source alone") {
  LuaFixture lua;
  CHECK(lua.run("\nsource (shell.rcpath .. '/nope.lua')") ==
        "rc.lua:2: source: nope.lua: No such file or directory");
  CHECK(lua.run("source_if_exists (shell.rcpath .. '/nope.lua')") == "ok");
  CHECK(lua.run("source ()") == "rc.lua:1: source: argument 1 (glob): expected a string, got no value");
  CHECK(lua.run("source ('')") == "rc.lua:1: source: argument 1 (glob): is empty");
  CHECK(lua.run("source ('a\\0b')") == "rc.lua:1: source: argument 1 (glob): contains a NUL byte");
  auto missing = lua.interpreter->run_file(lua.directory / "missing.lua");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == ENOENT);
  CHECK(lua.shorten(missing.error().message) == "missing.lua: No such file or directory");
}

TEST_CASE("errors name the file and the line where they arise") {
  LuaFixture lua;
  CHECK(lua.run("local a\n\nx = = 1") == "rc.lua:3: unexpected symbol near '='");
  CHECK(lua.run("\nlocal a = nil + 1").find("rc.lua:2: attempt to perform arithmetic on a nil value") == 0);
  CHECK(lua.run("\nerror ('no place', 0)") == "rc.lua:2: no place");
  CHECK(lua.run("\nerror ({})") == "rc.lua:2: the error is a table value");
  CHECK(lua.run("error ()") == "rc.lua:1: the error is a nil value");
  CHECK(lua.run("error (setmetatable ({}, {__tostring = function () return 'spoken' end}))") == "rc.lua:1: spoken");
  lua.write("inner.lua", "\n\nsyntax error");
  CHECK(lua.run("source (shell.rcpath .. '/inner.lua')") == "inner.lua:3: syntax error near 'error'");
  CHECK(lua.run("source_if_exists (shell.rcpath .. '/inner.lua')") == "inner.lua:3: syntax error near 'error'");
}

TEST_CASE("an error is one line") {
  LuaFixture lua;
  std::string message = lua.run("require 'no.such.module'");
  CHECK(message.find("rc.lua:1: module 'no.such.module' not found: no field package.preload") == 0);
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("the traceback is logged at debug") {
  LuaFixture lua;
  CHECK(lua.run("local function f () error ('x') end\nf ()") == "rc.lua:1: x");
  std::string all;
  for (const std::string& each : lua.host.logged) all += lua.shorten(each) + "\n";
  CHECK(all.find("debug initrc: traceback: rc.lua:2: in main chunk") != std::string::npos);
  lua.host.logged.clear();
  lua.host.log().set_level(nacre::Level::notice);
  CHECK(lua.run("error ('x')") == "rc.lua:1: x");
  CHECK(lua.host.logged.empty());
}

TEST_CASE("precompiled code is refused") {
  LuaFixture lua;
  CHECK(lua.run("local f = io.open (shell.rcpath .. '/code.luac', 'wb')"
                " f:write (string.dump (function () end)) f:close () source (shell.rcpath .. '/code.luac')")
            .find("attempt to load a binary chunk (mode is 't')") != std::string::npos);
}

TEST_CASE("a file that sources itself is stopped") {
  LuaFixture lua;
  std::string message = lua.run("count = (count or 0) + 1 source (shell.rcpath .. '/rc.lua')");
  CHECK(message == "rc.lua:1: source: rc.lua: 64 files source each other (does one source itself?)");
  CHECK(lua.eval("count") == "64");
}

TEST_CASE("recursion without end is an error, not a crash") {
  LuaFixture lua;
  CHECK(lua.run("local function f () return 1 + f () end f ()").find("rc.lua:1: stack overflow") == 0);
  CHECK(lua.run("t = setmetatable ({}, {__index = function (t, k) return t[k] end}) local x = t.a")
            .find("C stack overflow") != std::string::npos);
  CHECK(lua.run("string.rep ('x', -1):gsub ('', function () error ('in gsub') end)") == "rc.lua:1: in gsub");
  CHECK(lua.eval("1 + 1") == "2");
}

TEST_CASE("bindings work in coroutines, and their errors can be caught there") {
  LuaFixture lua;
  lua.write("inner.lua", "inner = coroutine.isyieldable ()");
  CHECK(lua.run("local co = coroutine.wrap (function ()\n"
                "  shell.setenv ('A', '1') coroutine.yield ()\n"
                "  source (shell.rcpath .. '/inner.lua')\n"
                "  return pcall (shell.setenv, {})\n"
                "end)\n"
                "co () local ok, why = co () assert (not ok) shell.setenv ('WHY', why)") == "ok");
  CHECK(lua.env("A") == "1");
  CHECK(lua.env("WHY") == "shell.setenv: argument 1 (name): expected a string, got a table");
  CHECK(lua.eval("inner") == "false");
}

TEST_CASE("finalizers that run at the end find the shell gone, and nothing worse") {
  LuaFixture lua;
  CHECK(lua.run("keep = setmetatable ({}, {__gc = function ()"
                " local ok, why = pcall (shell.log, 'x') plugin.register {handlers = {}} end})") == "ok");
}

TEST_CASE("finalizers may change what is being read") {
  LuaFixture lua;
  CHECK(
      lua.run(
          "shell.options.t = {}\n"
          "for i = 1, 100 do shell.setenv ('V' .. i, i) shell.options.t['k' .. i] = 'v' end\n"
          "local n = 0\n"
          "local function arm () setmetatable ({}, {__gc = function ()\n"
          "  n = n + 1 shell.setenv ('V' .. n % 100, ('y'):rep (n)) shell.options.t['k' .. n % 100] = nil arm ()\n"
          "end}) end\n"
          "arm () collectgarbage ('incremental', 1, 1000)\n"
          "for i = 1, 20 do shell.getenv () for k, v in pairs (shell.options.t) do end end\n"
          "shell.setenv ('FINALIZED', tostring (n > 0))") == "ok");
  CHECK(lua.env("FINALIZED") == "true");
}

TEST_CASE("source_rcpath takes files from lua.d beside the file that runs") {
  LuaFixture lua;
  lua.write("lua.d/a.lua", "list = (list or '') .. 'a' shell.source_rcpath ('more/*.lua')");
  lua.write("lua.d/b.lua", "list = (list or '') .. 'b'");
  lua.write("lua.d/more/m.lua", "list = (list or '') .. 'm'");
  lua.write("other.lua", "list = 'no'");
  CHECK(lua.run("shell.source_rcpath ('*.lua') shell.source_rcpath ('none.lua')") == "ok");
  CHECK(lua.eval("list") == "amb");
}

TEST_CASE("a directory with metacharacters in its name is no glob") {
  LuaFixture lua;
  lua.write("a[b]/lua.d/x.lua", "found = 'x'");
  auto ran = lua.interpreter->run_file(lua.write("a[b]/rc.lua", "shell.source_rcpath ('x.lua')"));
  CHECK(ran.has_value());
  CHECK(lua.eval("found") == "x");
}

TEST_CASE("source_rcpath_option takes the files of an option's value and version") {
  LuaFixture lua;
  lua.write("lua.d/mpi/openmpi.lua", "list = (list or '') .. 'all '");
  lua.write("lua.d/mpi/openmpi@5.lua", "list = (list or '') .. 'five '");
  const char* text = "list = '' shell.source_rcpath_option ('mpi')";
  CHECK(lua.run(text) == "ok");
  CHECK(lua.eval("list").empty());
  lua.host.options().set("mpi", "openmpi");
  CHECK(lua.run(text) == "ok");
  CHECK(lua.eval("list") == "all ");
  lua.host.options().set("mpi", "openmpi@5");
  CHECK(lua.run(text) == "ok");
  CHECK(lua.eval("list") == "all five ");
  lua.host.options().set("mpi", "openmpi@4");
  CHECK(lua.run(text) == "ok");
  CHECK(lua.eval("list") == "all ");
  lua.write("lua.d/mpi/new@1.lua", "list = (list or '') .. 'new '");
  lua.host.options().set("mpi", "new@1");
  CHECK(lua.run(text) == "ok");
  CHECK(lua.eval("list") == "new ");
}

TEST_CASE(
    "source_rcpath_option: none and what is not set ask for no file; an unknown name gets those that are there") {
  LuaFixture lua;
  lua.write("lua.d/mpi/b.lua", "");
  lua.write("lua.d/mpi/b@5.lua", "");
  lua.write("lua.d/mpi/a.lua", "");
  const char* text = "shell.source_rcpath_option ('mpi')";
  for (nacre::Json nothing : {nacre::Json("none"), nacre::Json(false), nacre::Json(nullptr)}) {
    lua.host.options().set("mpi", nothing);
    CHECK(lua.run(text) == "ok");
  }
  lua.host.options().set("mpi", "c@5");
  CHECK(lua.run(text) == "rc.lua:1: shell option mpi: unknown 'c@5'; known: a, b, b@5, none");
  lua.host.options().set("mpi", "b@6");
  CHECK(lua.run(text) == "ok");
  lua.host.options().set("mpi", "../../x");
  CHECK(lua.run(text) == "rc.lua:1: shell option mpi: expected a name, got '../../x'");
  for (nacre::Json odd : {nacre::Json(""), nacre::Json("@5"), nacre::Json(1), nacre::Json::array({"a"})}) {
    lua.host.options().set("mpi", odd);
    CHECK(lua.run(text).find("rc.lua:1: shell option mpi: expected a name, got ") == 0);
  }
}

TEST_CASE("FLUX_SHELL_RC_PATH adds directories, after lua.d") {
  LuaFixture lua;
  lua.write("lua.d/a.lua", "list = (list or '') .. 'a'");
  lua.write("lua.d/mpi/m.lua", "list = (list or '') .. 'm'");
  lua.write("one/b.lua", "list = (list or '') .. 'b'");
  lua.write("t[w]o/c.lua", "list = (list or '') .. 'c' where = shell.rcpath");
  lua.write("t[w]o/mpi/m.lua", "list = (list or '') .. 'M'");
  std::string more = lua.directory.string() + "/one::" + lua.directory.string() + "/t[w]o:/nowhere";
  ::setenv("FLUX_SHELL_RC_PATH", more.c_str(), 1);
  lua.host.options().set("mpi", "m");
  CHECK(lua.run("shell.source_rcpath ('*.lua') shell.source_rcpath_option ('mpi')") == "ok");
  ::unsetenv("FLUX_SHELL_RC_PATH");
  CHECK(lua.eval("list") == "abcmM");
  CHECK(lua.eval("where") == lua.directory / "t[w]o");
  CHECK(lua.run("list = '' shell.source_rcpath ('*.lua')") == "ok");
  CHECK(lua.eval("list") == "a");
}

TEST_CASE("of another lua.d, files are run at last, and those whose name is nowhere else") {
  LuaFixture lua;
  lua.restart(lua.directory / "[more]");
  lua.write("lua.d/b.lua", "list = (list or '') .. 'b'");
  lua.write("lua.d/mpi/one.lua", "one = 'site'");
  lua.write("[more]/a.lua", "list = (list or '') .. 'A'");
  lua.write("[more]/b.lua", "list = (list or '') .. 'B'");
  lua.write("[more]/mpi/one.lua", "one = 'more'");
  lua.write("[more]/mpi/two.lua", "two = 'more'");
  CHECK(lua.run("shell.source_rcpath ('*.lua') shell.source_rcpath ('b.lua')") == "ok");
  CHECK(lua.eval("list") == "bAb");
  lua.host.options().set("mpi", "one");
  CHECK(lua.run("shell.source_rcpath_option ('mpi')") == "ok");
  lua.host.options().set("mpi", "two");
  CHECK(lua.run("shell.source_rcpath_option ('mpi')") == "ok");
  CHECK(lua.eval("one .. two") == "sitemore");
  lua.host.options().set("mpi", "three");
  CHECK(lua.run("shell.source_rcpath_option ('mpi')").find("unknown 'three'; known: none, one, two") !=
        std::string::npos);
}

TEST_CASE("posix has basename, dirname and setrlimit without lua-posix, which comes first where it is") {
  LuaFixture lua;
  CHECK(lua.eval("require 'posix'.basename ('/usr/bin/flux/')") == "flux");
  CHECK(lua.eval("require 'posix'.dirname ('/usr/bin/flux')") == "/usr/bin");
  CHECK(lua.eval("require 'posix'.basename ('')") == ".");
  CHECK(lua.run("require 'posix'.basename ({})") ==
        "rc.lua:1: posix.basename: argument 1 (path): expected a string, got a table");
  CHECK(
      lua.run("local pid = require 'posix'.getpid ()") ==
      "rc.lua:1: posix.getpid: lua-posix is not installed for Lua 5.4; without it there are only basename, dirname "
      "and setrlimit");
  rlimit before{}, after{};
  REQUIRE(::getrlimit(RLIMIT_CORE, &before) == 0);
  CHECK(lua.run("assert (require 'posix'.setrlimit ('core', 0) == 0)") == "ok");
  REQUIRE(::getrlimit(RLIMIT_CORE, &after) == 0);
  CHECK(after.rlim_cur == 0);
  CHECK(after.rlim_max == before.rlim_max);
  REQUIRE(::setrlimit(RLIMIT_CORE, &before) == 0);
  CHECK(lua.run("require 'posix'.setrlimit ('colour', 0)") ==
        "rc.lua:1: posix.setrlimit: there is no limit 'colour'");
  CHECK(lua.run("require 'posix'.setrlimit ('core', 'x')") ==
        "rc.lua:1: posix.setrlimit: argument 2: expected an integer");
  CHECK(lua.run("require 'posix.unistd'").find("rc.lua:1: module 'posix.unistd' not found") == 0);
  LuaFixture other;
  other.write("posix.lua", "return {basename = function () return 'other' end}");
  CHECK(other.eval(
            "(function () package.path = shell.rcpath .. '/?.lua' return require 'posix'.basename () end) ()") ==
        "other");
  for (const char* other_version : {"require 'posix.of_another_lua'", "return {", "error 'for another Lua'"}) {
    LuaFixture broken;
    INFO(other_version);
    broken.write("posix.lua", other_version);
    broken.run("package.path = shell.rcpath .. '/?.lua'");
    CHECK(broken.eval("require 'posix'.basename ('/usr/bin/flux')") == "flux");
  }
}
