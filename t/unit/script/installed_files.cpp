// SPDX-License-Identifier: Apache-2.0
//
// The Lua files that are installed do what they say.
#include <catch2/catch.hpp>

#include "lua_fixture.hpp"

namespace {

struct Installed : LuaFixture {
  explicit Installed(std::uint32_t tasks = 4) : LuaFixture(tasks) { host.plugin_searchpath() = directory; }
  std::string run_initrc() {
    auto ran = interpreter->run_file(std::string(NACRE_SOURCE_DIR) + "/etc/initrc.lua");
    return ran ? "ok" : ran.error().message;
  }
};

}  // namespace

TEST_CASE_METHOD(Installed, "without options the initrc changes nothing") {
  CHECK(run_initrc() == "ok");
  CHECK(host.stack().plugins().empty());
  CHECK(host.environment().all().empty());
  CHECK(host.logged.empty());
}

TEST_CASE_METHOD(Installed, "userrc is read, and must exist") {
  host.options().set("userrc", write("user.lua", "shell.setenv ('USERRC', shell.rcpath)"));
  CHECK(run_initrc() == "ok");
  CHECK(env("USERRC") == directory);
  host.options().set("userrc", "/nowhere/user.lua");
  CHECK(run_initrc().find("source: /nowhere/user.lua: No such file or directory") != std::string::npos);
}

TEST_CASE_METHOD(Installed, "omp-threads sets a number, unless the user has") {
  host.options().set("omp-threads", 3);
  CHECK(run_initrc() == "ok");
  CHECK(env("OMP_NUM_THREADS") == "3");
  host.options().set("omp-threads", 5);
  CHECK(run_initrc() == "ok");
  CHECK(env("OMP_NUM_THREADS") == "3");
}

TEST_CASE_METHOD(Installed, "omp-threads=per-task divides the cores") {
  host.options().set("omp-threads", "per-task");
  CHECK(run_initrc() == "ok");
  CHECK(env("OMP_NUM_THREADS") == "1");
  const char* jobspec = R"({"version":1,"resources":[{"type":"slot","count":2,"label":"task",
    "with":[{"type":"core","count":3}]}],"tasks":[{"command":["a"],"slot":"task","count":{"per_slot":1}}],
    "attributes":{"system":{"duration":0,"shell":{"options":{"omp-threads":"per-task"}}}}})";
  const char* resources = R"({"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-6"}}],
    "nodelist":["n0"],"starttime":0,"expiration":0}})";
  LuaFixture wide(jobspec, resources, 0);
  auto ran = wide.interpreter->run_file(std::string(NACRE_SOURCE_DIR) + "/etc/initrc.lua");
  CHECK(ran.has_value());
  CHECK(wide.env("OMP_NUM_THREADS") == "3");
}

TEST_CASE_METHOD(Installed, "omp-threads refuses what is no number") {
  host.options().set("omp-threads", "many");
  CHECK(run_initrc() == "omp-threads: expected a number of threads or per-task, got many");
  CHECK(host.deaths.size() == 1);
}

TEST_CASE_METHOD(Installed, "torch gives each task its place in the group") {
  host.options().set("torch", 1);
  host.make_tasks();
  CHECK(run_initrc() == "ok");
  CHECK(call("shell.init") == "ok 1");
  CHECK(env("WORLD_SIZE") == "4");
  CHECK(env("LOCAL_WORLD_SIZE") == "4");
  CHECK(env("GROUP_RANK") == "0");
  CHECK(env("MASTER_ADDR") == "fake0");
  CHECK(env("MASTER_PORT") == "20001");
  CHECK(call_task("task.init", 3) == "ok 1");
  CHECK(host.tasks()[3]->command().env.get("RANK") == "3");
  CHECK(host.tasks()[3]->command().env.get("LOCAL_RANK") == "3");
}

TEST_CASE_METHOD(Installed, "torch.port is taken, and checked") {
  host.options().set("torch.port", 29500);
  CHECK(run_initrc() == "ok");
  CHECK(call("shell.init") == "ok 1");
  CHECK(env("MASTER_PORT") == "29500");
  host.options().set("torch.port", 0);
  CHECK(run_initrc() == "torch.port: expected 1 to 65535, got 0");
}
