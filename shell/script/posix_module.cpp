// SPDX-License-Identifier: Apache-2.0
//
// A module `posix` of two functions, basename and dirname, for initrc files that need no more of lua-posix. Debian
// has no lua-posix for Lua 5.4; where one is installed it is found first.
#include <libgen.h>

#include <string>

#include <fmt/format.h>

#include "script/binding.hpp"

namespace nacre::script {
namespace {

constexpr std::string_view kName = "posix";

Result<int> base_name(Interpreter&, lua_State* lua) {
  std::string path(TRY(Arguments(lua, "posix.basename").text(1, "path")));
  push_text(lua, ::basename(path.data()));  // that of libgen.h, POSIX's
  return 1;
}

Result<int> directory_name(Interpreter&, lua_State* lua) {
  std::string path(TRY(Arguments(lua, "posix.dirname").text(1, "path")));
  push_text(lua, ::dirname(path.data()));
  return 1;
}

Result<int> absent(Interpreter&, lua_State* lua) {
  std::string_view key = lua_type(lua, 2) == LUA_TSTRING ? text_at(lua, 2) : "?";
  return invalid(
      fmt::format("posix.{}: lua-posix is not installed for Lua 5.4; without it there are only basename "
                  "and dirname",
                  key));
}

Result<int> add_member(Interpreter&, lua_State* lua) { return assign_member(lua, "posix"); }

int open_module(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {
      {"basename", trampoline<base_name>}, {"dirname", trampoline<directory_name>}, {nullptr, nullptr}};
  push_virtual_table(lua, kFunctions, trampoline<absent>, trampoline<add_member>);
  return 1;
}

// As package.searchers has them: the loader and where it is from, or why there is none.
int search(lua_State* lua) {
  if (lua_type(lua, 1) != LUA_TSTRING || text_at(lua, 1) != kName) return 0;
  lua_pushcfunction(lua, open_module);
  lua_pushliteral(lua, ":nacre:");
  return 2;
}

}  // namespace

void add_posix_module(lua_State* lua) {
  lua_getglobal(lua, "package");
  lua_getfield(lua, -1, "searchers");
  lua_pushcfunction(lua, search);
  lua_rawseti(lua, -2, static_cast<lua_Integer>(lua_rawlen(lua, -2)) + 1);
  lua_pop(lua, 2);
}

}  // namespace nacre::script
