// SPDX-License-Identifier: Apache-2.0
//
// Values of C++ as full userdata of Lua, with methods and operators. A value does not change once Lua has it.
#pragma once

#include <lua.hpp>

#include <memory>
#include <new>
#include <utility>

namespace nacre::script {

// `Type` has value_type, kName (of the metatable; what messages call it) and kMethods, kOperators (luaL_Reg).
template <typename Type>
void add_userdata_type(lua_State* lua) {
  using Value = typename Type::value_type;
  if (luaL_newmetatable(lua, Type::kName) != 0) {
    luaL_setfuncs(lua, Type::kOperators, 0);
    lua_newtable(lua);
    luaL_setfuncs(lua, Type::kMethods, 0);
    lua_setfield(lua, -2, "__index");
    // No trampoline: it runs when the state is closed, too.
    lua_pushcfunction(lua, [](lua_State* state) {
      std::destroy_at(static_cast<Value*>(lua_touserdata(state, 1)));
      return 0;
    });
    lua_setfield(lua, -2, "__gc");
    lua_pushliteral(lua, "locked");  // so that no Lua code gets at __gc
    lua_setfield(lua, -2, "__metatable");
  }
  lua_pop(lua, 1);
}

template <typename Type>
int push_userdata(lua_State* lua, typename Type::value_type value) {
  using Value = typename Type::value_type;
  static_assert(alignof(Value) <= alignof(std::max_align_t));
  void* place = lua_newuserdatauv(lua, sizeof(Value), 0);
  new (place) Value(std::move(value));
  luaL_setmetatable(lua, Type::kName);
  return 1;
}

// Null if the value at `index` is none of the type. Valid while it is on the stack.
template <typename Type>
const typename Type::value_type* userdata_at(lua_State* lua, int index) {
  return static_cast<const typename Type::value_type*>(luaL_testudata(lua, index, Type::kName));
}

}  // namespace nacre::script
