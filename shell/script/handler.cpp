// SPDX-License-Identifier: Apache-2.0
//
// What happens when a topic reaches a function that Lua registered.
#include <fmt/format.h>

#include "script/binding.hpp"
#include "script/json.hpp"

namespace nacre::script {
namespace {

// Where a function begins: FILE:LINE, for a failure without an error of its own.
std::string place_of(lua_State* lua, int function) {
  lua_Debug info{};
  lua_rawgeti(lua, LUA_REGISTRYINDEX, function);
  lua_getinfo(lua, ">S", &info);
  return fmt::format("{}:{}", info.short_src, info.linedefined);
}

// `return false, "why"` and `return -1, "why"`.
Error refusal(lua_State* lua, int function) {
  std::string why(lua_isstring(lua, -1) != 0 ? text_at(lua, -1) : "");
  if (why.empty())
    why = fmt::format("the handler returned {}", lua_isboolean(lua, -2) ? "false" : text_at(lua, -2));
  return {kLuaError, fmt::format("{}: {}", place_of(lua, function), why)};
}

// Judges the two results on top of the stack.
Result<void> judge(lua_State* lua, int function, plugin::Call& call) {
  switch (lua_type(lua, -2)) {
    case LUA_TNIL: return {};
    case LUA_TBOOLEAN:
      if (lua_toboolean(lua, -2) == 0) return refusal(lua, function);
      return {};
    case LUA_TNUMBER:
      if (lua_tonumber(lua, -2) < 0) return refusal(lua, function);
      return {};
    case LUA_TTABLE: {
      Json out = TRY(in(place_of(lua, function), to_json(lua, -2, "result")));
      if (!out.is_object()) break;
      call.out.update(out);
      return {};
    }
    default: break;
  }
  return Error{kLuaError,
               fmt::format("{}: a handler returns nothing, a boolean, a number, or a table of results by "
                           "name; got {}",
                           place_of(lua, function), describe(lua, -2))};
}

}  // namespace

const Interpreter::LuaHandler& Interpreter::keep_handler(lua_State* lua, Context context) {
  int function = luaL_ref(lua, LUA_REGISTRYINDEX);
  return handlers_.emplace_back(LuaHandler{function, std::move(context)});
}

Result<void> Interpreter::handle(const LuaHandler& handler, plugin::Call& call) {
  lua_State* lua = running_;
  StackMark mark(lua);
  if (lua_checkstack(lua, LUA_MINSTACK) == 0) return Error{ENOMEM, "the Lua stack is full"};
  lua_rawgeti(lua, LUA_REGISTRYINDEX, handler.function);
  push_text(lua, call.topic);
  CHECK_OK(in("in arguments", push_json(lua, call.in)));
  CHECK_OK(this->call(2, 2, {handler.context.component, handler.context.rcpath, call.topic}));
  return judge(lua, handler.function, call);
}

void Interpreter::wait_for(plugin::Registration registration) {
  std::erase_if(waits_, [](const plugin::Registration& each) { return !each.active(); });
  if (registration.active()) waits_.push_back(std::move(registration));
}

void Interpreter::answer(const LuaHandler& handler, const Result<Json>& news) {
  lua_State* lua = running_;
  StackMark mark(lua);
  if (lua_checkstack(lua, LUA_MINSTACK) == 0) return host_.die(1, "", "the Lua stack is full");
  lua_rawgeti(lua, LUA_REGISTRYINDEX, handler.function);
  Result<void> called;
  if (news) {
    called = push_json(lua, *news);
    lua_pushnil(lua);
  } else {
    lua_pushnil(lua);
    push_text(lua, news.error().message);
  }
  if (called) called = call(2, 0, handler.context);
  if (!called && !called.error().is_logged) host_.die(1, handler.context.component, called.error().message);
}

}  // namespace nacre::script
