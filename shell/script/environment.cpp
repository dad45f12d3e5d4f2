// SPDX-License-Identifier: Apache-2.0
#include "script/environment.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "script/binding.hpp"

namespace nacre::script {
namespace {

int push_all(lua_State* lua, const job::Environment& env) {
  // Copied, since a finalizer, which may run at each push, may change the environment.
  std::vector<std::pair<std::string, std::string>> variables;
  for (const auto& [name, value] : env.all()) variables.emplace_back(name, value);
  lua_createtable(lua, 0, static_cast<int>(variables.size()));
  for (const auto& [name, value] : variables) {
    push_text(lua, name);
    push_text(lua, value);
    lua_rawset(lua, -3);
  }
  return 1;
}

// Whether `variable` matches the Lua pattern that is argument `index`.
Result<bool> matches(lua_State* lua, const std::string& variable, int index) {
  StackMark mark(lua);
  lua_getfield(lua, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(lua, -1, LUA_STRLIBNAME);
  lua_getfield(lua, -1, "find");
  push_text(lua, variable);
  lua_pushvalue(lua, index);
  if (lua_pcall(lua, 2, 1, 0) != LUA_OK) return invalid(std::string(text_at(lua, -1)));
  return lua_isnil(lua, -1) == 0;
}

}  // namespace

Result<int> get_variable(lua_State* lua, const job::Environment& env, std::string_view name) {
  Arguments arguments(lua, name);
  if (arguments.count() == 0) return push_all(lua, env);
  std::string_view variable = TRY(arguments.text(1, "name"));
  if (auto value = env.get(variable)) {
    push_text(lua, *value);
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> set_variable(lua_State* lua, job::Environment& env, std::string_view name) {
  Arguments arguments(lua, name);
  std::string_view variable = TRY(arguments.text(1, "name"));
  std::string_view value = TRY(arguments.text(2, "value"));
  CHECK_OK(in(name, job::Environment::check(variable, value)));
  if (arguments.truth(3, true) || !env.get(variable)) env.set(variable, value);
  lua_pushboolean(lua, 1);
  return 1;
}

Result<int> unset_variable(lua_State* lua, job::Environment& env, std::string_view name) {
  std::string_view variable = TRY(Arguments(lua, name).text(1, "name"));
  env.unset(variable);
  lua_pushboolean(lua, 1);
  return 1;
}

Result<int> prepend_path(lua_State* lua, job::Environment& env, std::string_view name) {
  Arguments arguments(lua, name);
  std::string_view variable = TRY(arguments.text(1, "name"));
  std::string value = TRY(arguments.path(2, "path"));
  auto rest = env.get(variable);
  if (rest && !rest->empty()) value = fmt::format("{}:{}", value, *rest);
  CHECK_OK(in(name, job::Environment::check(variable, value)));
  env.set(variable, value);
  return 0;
}

Result<int> strip_variables(lua_State* lua, job::Environment& env, std::string_view name) {
  Arguments arguments(lua, name);
  if (arguments.count() == 0) return arguments.expected(1, "pattern", "a string");
  std::vector<std::string> variables;
  for (const auto& [variable, value] : env.all()) variables.emplace_back(variable);
  std::vector<std::string> doomed;
  for (int index = 1; index <= arguments.count(); ++index) {
    TRY(arguments.text(index, "pattern"));
    for (const std::string& each : variables) {
      Result<bool> match = matches(lua, each, index);
      if (!match) return arguments.error(index, "pattern", match.error().message);
      if (*match) doomed.push_back(each);
    }
  }
  for (const std::string& each : doomed) env.unset(each);
  return 0;
}

}  // namespace nacre::script
