// SPDX-License-Identifier: Apache-2.0
//
// The Lua table `task`: the task that a task.* topic is about.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "script/binding.hpp"
#include "script/environment.hpp"
#include "script/json.hpp"

namespace nacre::script {
namespace {

Result<task::Task*> current_task(Interpreter& self, std::string_view name) {
  task::Task* task = self.host().current_task();
  if (task == nullptr) return Error{EPERM, fmt::format("{} can only be used in a task.* callback", name)};
  return task;
}

// The environment of a task can be read at any time, but changed only before it runs.
Result<task::Task*> startable_task(Interpreter& self, std::string_view name) {
  task::Task* task = TRY(current_task(self, name));
  if (task->state() != task::State::init) return Error{EPERM, fmt::format("{}: the task has started", name)};
  return task;
}

Result<int> task_getenv(Interpreter& self, lua_State* lua) {
  task::Task* task = TRY(current_task(self, "task.getenv"));
  return get_variable(lua, task->command().env, "task.getenv");
}

Result<int> task_setenv(Interpreter& self, lua_State* lua) {
  task::Task* task = TRY(startable_task(self, "task.setenv"));
  return set_variable(lua, task->command().env, "task.setenv");
}

Result<int> task_unsetenv(Interpreter& self, lua_State* lua) {
  task::Task* task = TRY(startable_task(self, "task.unsetenv"));
  return unset_variable(lua, task->command().env, "task.unsetenv");
}

// As nacre-shell-initrc(5) has it: an exit code of 128 + signal for a killed task.
Json info_of(const task::Task& task) {
  Json info = task.info();
  if (task.state() == task::State::exited) info["exitcode"] = task.status().job_code();
  return info;
}

Result<int> task_index(Interpreter& self, lua_State* lua) {
  if (lua_type(lua, 2) == LUA_TSTRING && text_at(lua, 2) == "info") {
    task::Task* task = TRY(current_task(self, "task.info"));
    CHECK_OK(push_json(lua, info_of(*task)));
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> task_assign(Interpreter&, lua_State* lua) {
  if (lua_type(lua, 2) == LUA_TSTRING && text_at(lua, 2) == "info") return Error{EPERM, "task.info is read-only"};
  return assign_member(lua, "task");
}

}  // namespace

void add_task_table(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {{"getenv", trampoline<task_getenv>},
                                            {"setenv", trampoline<task_setenv>},
                                            {"unsetenv", trampoline<task_unsetenv>},
                                            {nullptr, nullptr}};
  push_virtual_table(lua, kFunctions, trampoline<task_index>, trampoline<task_assign>);
  lua_setglobal(lua, "task");
}

}  // namespace nacre::script
