// SPDX-License-Identifier: Apache-2.0
#include "script/time_limit.hpp"

#include <cmath>

#include <fmt/format.h>

#include "event/clock.hpp"
#include "script/binding.hpp"
#include "value/duration.hpp"

namespace nacre::script {
namespace {

constexpr const char* kOption = "lua-timeout";

// `unless_set`: what holds without the option.
Result<std::optional<event::Seconds>> limit_of(const job::Options& options,
                                               std::optional<event::Seconds> unless_set) {
  auto option = options.at(kOption);
  if (!option || option->json().is_null()) return unless_set;
  if (option->json() == "none") return std::nullopt;
  constexpr const char* kExpected = "a time above 0 in seconds, a duration such as \"30s\", or \"none\"";
  double seconds = 0;
  if (option->json().is_number()) {
    seconds = option->json().get<double>();
  } else if (option->json().is_string()) {
    seconds = TRY(in(option->path(), value::Duration::parse(TRY(option->string())))).seconds();
  }
  if (seconds <= 0) return option->expected(kExpected);
  if (std::isinf(seconds)) return std::nullopt;
  return event::Seconds(seconds);
}

// Calls the message handler, which is the upvalue, unless the error is to end the Lua code.
int judge(lua_State* lua) {
  if (is_death(lua, 1)) return 1;
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
  return lua_gettop(lua);
}

int after_xpcall(lua_State* lua, int /*status*/, lua_KContext /*context*/) { return lua_gettop(lua); }

int guarded_xpcall(lua_State* lua) {
  luaL_checktype(lua, 2, LUA_TFUNCTION);
  lua_pushvalue(lua, 2);
  lua_pushcclosure(lua, judge, 1);
  lua_replace(lua, 2);
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_callk(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0, after_xpcall);
  return lua_gettop(lua);
}

}  // namespace

// ---- the limit -----------------------------------------------------------------

Result<void> TimeLimit::read(const job::Options& options, Of what, lua_State* main, lua_State* running) {
  auto limit = TRY(limit_of(options, what == Of::files ? std::optional(kOfFiles) : std::nullopt));
  if (limit == limit_) return {};
  limit_ = limit;
  if (depth_ == 0) return {};
  start(main);
  if (limit_ && running != main) lua_sethook(running, on_count, LUA_MASKCOUNT, kInstructions);
  return {};
}

void TimeLimit::enter(lua_State* main) {
  if (depth_++ == 0 && limit_) start(main);
}

std::string TimeLimit::leave() {
  if (--depth_ > 0) return stopped_at_;
  return std::exchange(stopped_at_, "");
}

void TimeLimit::start(lua_State* main) {
  if (!limit_) {
    lua_sethook(main, nullptr, 0, 0);
    return;
  }
  deadline_ = event::clock_now() + *limit_;
  // For each coroutine that is made, too.
  lua_sethook(main, on_count, LUA_MASKCOUNT, kInstructions);
}

std::string TimeLimit::str() const { return value::Duration::of_seconds(limit_ ? limit_->count() : 0).str(); }

bool TimeLimit::passed(lua_State* lua, lua_Debug* frame) {
  if (!limit_) {
    lua_sethook(lua, nullptr, 0, 0);
    return false;
  }
  if (stopped_at_.empty()) {
    if (event::clock_now() < deadline_) return false;
    lua_getinfo(lua, "Sl", frame);
    stopped_at_ = fmt::format("{}:{}", frame->short_src, frame->currentline);
  }
  // So that a script that catches the error comes no further.
  lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
  return true;
}

// No C++ object may be alive where the error is raised.
void TimeLimit::on_count(lua_State* lua, lua_Debug* frame) {
  if (!Interpreter::of(lua).time_limit().passed(lua, frame)) return;
  push_death(lua);
  lua_error(lua);
}

void guard_xpcall(lua_State* lua) {
  lua_getglobal(lua, "xpcall");
  lua_pushcclosure(lua, guarded_xpcall, 1);
  lua_setglobal(lua, "xpcall");
}

}  // namespace nacre::script
