// SPDX-License-Identifier: Apache-2.0
#include "script/binding.hpp"

namespace nacre::script {

std::string describe(lua_State* lua, int index) {
  int type = lua_type(lua, index);
  switch (type) {
    case LUA_TNONE: return "no value";
    case LUA_TNIL:
    case LUA_TUSERDATA:
    case LUA_TLIGHTUSERDATA: return lua_typename(lua, type);
    default: return fmt::format("a {}", lua_typename(lua, type));
  }
}

std::string_view text_at(lua_State* lua, int index) {
  std::size_t size = 0;
  const char* text = lua_tolstring(lua, index, &size);
  return {text, size};
}

Place caller(lua_State* lua) {
  lua_Debug frame{};
  if (lua_getstack(lua, 1, &frame) == 0) return {};
  lua_getinfo(lua, "Sl", &frame);
  if (frame.currentline <= 0) return {};
  return {frame.short_src, frame.currentline};
}

void push_text(lua_State* lua, std::string_view text) { lua_pushlstring(lua, text.data(), text.size()); }

Result<std::string_view> Arguments::text(int index, std::string_view what) const {
  int type = lua_type(lua_, index);
  if (type != LUA_TSTRING && type != LUA_TNUMBER) return expected(index, what, "a string");
  return text_at(lua_, index);
}

Result<std::string> Arguments::path(int index, std::string_view what) const {
  std::string_view path = TRY(text(index, what));
  if (path.empty()) return error(index, what, "is empty");
  if (path.find('\0') != std::string_view::npos) return error(index, what, "contains a NUL byte");
  return std::string(path);
}

Result<void> Arguments::table(int index, std::string_view what) const {
  if (!lua_istable(lua_, index)) return expected(index, what, "a table");
  return {};
}

bool Arguments::truth(int index, bool otherwise) const {
  if (index > count_ || lua_isnil(lua_, index)) return otherwise;
  if (lua_type(lua_, index) == LUA_TNUMBER) return lua_tonumber(lua_, index) != 0;
  return lua_toboolean(lua_, index) != 0;
}

Error Arguments::error(int index, std::string_view what, std::string_view message) const {
  return invalid(fmt::format("{}: argument {} ({}): {}", name_, index, what, message));
}

Error Arguments::expected(int index, std::string_view what, std::string_view want) const {
  return error(index, what, fmt::format("expected {}, got {}", want, describe(lua_, index)));
}

void push_virtual_table(lua_State* lua, const luaL_Reg* functions, lua_CFunction index, lua_CFunction assign) {
  lua_newtable(lua);
  lua_newtable(lua);
  // What the table does not have is looked for among the functions, and then computed.
  lua_newtable(lua);
  luaL_setfuncs(lua, functions, 0);
  lua_newtable(lua);
  lua_pushcfunction(lua, index);
  lua_setfield(lua, -2, "__index");
  lua_setmetatable(lua, -2);
  lua_pushvalue(lua, -1);
  lua_setfield(lua, -3, "__index");
  lua_pushcclosure(lua, assign, 1);
  lua_setfield(lua, -2, "__newindex");
  lua_setmetatable(lua, -2);
}

void add_functions(lua_State* lua, const luaL_Reg* functions) {
  luaL_getmetafield(lua, -1, "__index");
  luaL_setfuncs(lua, functions, 0);
  lua_pop(lua, 1);
}

Result<int> assign_member(lua_State* lua, std::string_view table) {
  if (lua_type(lua, 2) != LUA_TSTRING)
    return invalid(fmt::format("a name must be a string, got {}", describe(lua, 2)));
  lua_pushvalue(lua, 2);
  if (lua_rawget(lua, lua_upvalueindex(1)) != LUA_TNIL)
    return Error{EPERM, fmt::format("{}.{} is read-only", table, text_at(lua, 2))};
  lua_pop(lua, 1);
  lua_rawset(lua, 1);
  return 0;
}

}  // namespace nacre::script
