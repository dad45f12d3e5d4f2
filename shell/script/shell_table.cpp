// SPDX-License-Identifier: Apache-2.0
//
// The Lua table `shell`: facts of the job, its options and environment, the log.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "script/binding.hpp"
#include "script/environment.hpp"
#include "script/json.hpp"
#include "script/options.hpp"

namespace nacre::script {
namespace {

constexpr char kInfoKey = 0;  // its address is the key of shell.info in the registry

// ---- facts -------------------------------------------------------------------

// Made once: the facts do not change, and a callback for each task may look at them.
Result<int> push_info(Interpreter& self, lua_State* lua) {
  if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &kInfoKey) == LUA_TTABLE) return 1;
  lua_pop(lua, 1);
  Json info = self.host().info();
  // Text, as flux-shell-initrc(5) has it. A larger one than Lua's integers would be a float, too.
  info["jobid"] = fmt::format("{}", self.host().job().id.value());
  CHECK_OK(in("shell.info", push_json(lua, info)));
  lua_pushvalue(lua, -1);
  lua_rawsetp(lua, LUA_REGISTRYINDEX, &kInfoKey);
  return 1;
}

// Resources go by two names in the field: {core, gpu} of R, and {cores, gpus}.
void name_twice(Json& resources, const char* one, const char* other) {
  if (resources.contains(one) && !resources.contains(other)) resources[other] = resources[one];
  if (resources.contains(other) && !resources.contains(one)) resources[one] = resources[other];
}

Result<int> push_rank_info(Interpreter& self, lua_State* lua, std::uint32_t rank) {
  Json info = TRY(in("shell.get_rankinfo", self.host().job().rank_info(rank)));
  Json& resources = info["resources"];
  // "" is true in Lua, and scripts ask `if resources.gpus then`.
  if (resources.value("gpus", "") == "") resources.erase("gpus");
  name_twice(resources, "core", "cores");
  name_twice(resources, "gpu", "gpus");
  CHECK_OK(push_json(lua, info));
  return 1;
}

Result<int> get_rankinfo(Interpreter& self, lua_State* lua) {
  Arguments arguments(lua, "shell.get_rankinfo");
  if (arguments.count() == 0 || lua_isnil(lua, 1)) return push_rank_info(self, lua, self.host().job().shell_rank);
  int is_integer = 0;
  lua_Integer rank = lua_tointegerx(lua, 1, &is_integer);
  if (is_integer == 0) return arguments.expected(1, "shell_rank", "an integer");
  std::uint32_t shells = self.host().job().shells();
  if (rank < 0 || rank >= lua_Integer{shells}) {
    return arguments.error(1, "shell_rank", fmt::format("expected 0 to {}, got {}", shells - 1, rank));
  }
  return push_rank_info(self, lua, static_cast<std::uint32_t>(rank));
}

// ---- the environment of the job ------------------------------------------------

Result<int> shell_getenv(Interpreter& self, lua_State* lua) {
  return get_variable(lua, self.host().environment(), "shell.getenv");
}

Result<int> shell_setenv(Interpreter& self, lua_State* lua) {
  return set_variable(lua, self.host().environment(), "shell.setenv");
}

Result<int> shell_unsetenv(Interpreter& self, lua_State* lua) {
  return unset_variable(lua, self.host().environment(), "shell.unsetenv");
}

Result<int> shell_prepend_path(Interpreter& self, lua_State* lua) {
  return prepend_path(lua, self.host().environment(), "shell.prepend_path");
}

Result<int> shell_env_strip(Interpreter& self, lua_State* lua) {
  return strip_variables(lua, self.host().environment(), "shell.env_strip");
}

// ---- the log -------------------------------------------------------------------

Result<int> post(Interpreter& self, lua_State* lua, std::string_view name, Level level) {
  std::string message(TRY(Arguments(lua, name).text(1, "message")));
  Log& log = self.host().log();
  if (!log.wants(level)) return 0;
  Place place = caller(lua);
  std::string_view rest = message;
  if (rest.ends_with('\n')) rest.remove_suffix(1);
  for (std::string_view line : split(rest, '\n')) {
    log.post({level, self.context().component, place.file, place.line, std::string(line)});
  }
  return 0;
}

Result<int> shell_log(Interpreter& self, lua_State* lua) { return post(self, lua, "shell.log", Level::notice); }
Result<int> shell_debug(Interpreter& self, lua_State* lua) { return post(self, lua, "shell.debug", Level::debug); }
Result<int> shell_log_error(Interpreter& self, lua_State* lua) {
  return post(self, lua, "shell.log_error", Level::error);
}

Result<int> shell_die(Interpreter& self, lua_State* lua) {
  return self.die(std::string(TRY(Arguments(lua, "shell.die").text(1, "message"))));
}

// ---- computed members ------------------------------------------------------------

Result<int> shell_index(Interpreter& self, lua_State* lua) {
  std::string_view key = lua_type(lua, 2) == LUA_TSTRING ? text_at(lua, 2) : "";
  if (key == "info") return push_info(self, lua);
  if (key == "rankinfo") return push_rank_info(self, lua, self.host().job().shell_rank);
  if (key == "options") {
    push_options(lua);
  } else if (key == "rcpath") {
    push_text(lua, self.context().rcpath);
  } else if (key == "verbose") {
    lua_pushinteger(lua, verbosity(self.host().log()));
  } else if (key == "null") {
    push_null(lua);
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> shell_assign(Interpreter& self, lua_State* lua) {
  std::string_view key = lua_type(lua, 2) == LUA_TSTRING ? text_at(lua, 2) : "";
  if (key == "verbose") {
    Json value = TRY(to_json(lua, 3, "shell.verbose"));
    CHECK_OK(set_verbosity(self.host(), value, "shell.verbose"));
    return 0;
  }
  for (std::string_view fixed : {"info", "rankinfo", "options", "rcpath", "null"}) {
    if (key == fixed) return Error{EPERM, fmt::format("shell.{} is read-only", key)};
  }
  return assign_member(lua, "shell");
}

}  // namespace

void add_shell_table(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {{"get_rankinfo", trampoline<get_rankinfo>},
                                            {"getenv", trampoline<shell_getenv>},
                                            {"setenv", trampoline<shell_setenv>},
                                            {"unsetenv", trampoline<shell_unsetenv>},
                                            {"prepend_path", trampoline<shell_prepend_path>},
                                            {"env_strip", trampoline<shell_env_strip>},
                                            {"log", trampoline<shell_log>},
                                            {"debug", trampoline<shell_debug>},
                                            {"log_error", trampoline<shell_log_error>},
                                            {"die", trampoline<shell_die>},
                                            {"shrink", trampoline<shrink>},
                                            {nullptr, nullptr}};
  push_virtual_table(lua, kFunctions, trampoline<shell_index>, trampoline<shell_assign>);
  add_source_functions(lua);
  lua_setglobal(lua, "shell");
}

}  // namespace nacre::script
