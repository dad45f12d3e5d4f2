// SPDX-License-Identifier: Apache-2.0
//
// JSON to Lua and back.
//
//   JSON             Lua
//   object           table with string keys; a member that is null is left out
//   array            table 1..n, with the metatable that kArrayType names, so that an empty one comes back as an
//   array null             nil; inside an array the value shell.null, which comes back as null wherever it stands
//   integer          integer; above the largest of Lua (2^63 - 1) a float
//   other number     float
//
// Back: a table with keys 1..n is an array, any other an object; an empty one an object, unless it came from an
// array. An error for a table that is both or has holes, for keys that are neither strings nor 1..n, for nan and
// inf, for functions and the like, and beyond the limits. A part of shell.options is copied as the values that it
// stands for.
#pragma once

#include "base/json_fwd.hpp"
#include "base/result.hpp"

struct lua_State;

namespace nacre::script {

inline constexpr const char* kArrayType = "nacre.array";            // luaL_newmetatable(3)
inline constexpr std::size_t kMaxLuaValues = std::size_t{1} << 20;  // in one conversion from Lua
// Levels of nesting to Lua: more than kMaxJsonDepth, which holds from Lua, since facts of the job wrap whole
// documents.
inline constexpr int kMaxDepthToLua = 256;

void add_array_type(lua_State* lua);
void push_null(lua_State* lua);

// Pushes `value`; nothing if it fails.
Result<void> push_json(lua_State* lua, const Json& value);

// The value at `index`. Errors: `WHERE.key[3]: why`.
Result<Json> to_json(lua_State* lua, int index, std::string_view where);

}  // namespace nacre::script
