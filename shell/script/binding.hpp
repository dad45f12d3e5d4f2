// SPDX-License-Identifier: Apache-2.0
//
// How C++ functions become Lua functions. Lua is compiled as C, so an error that it raises is a longjmp, which must
// not cross a C++ object. Hence:
//
//   - A binding takes its arguments from the Lua stack, pushes its results and returns how many, or an Error. It
//     never calls lua_error, luaL_error or luaL_check*, nor anything that may run a metamethod (tables are read
//     raw).
//   - trampoline<binding> is what Lua sees. It raises the Error, prefixed with the caller's FILE:LINE:, when all
//     objects of the binding are gone. (Lua running out of memory inside a binding is not provided for.)
#pragma once

#include <lua.hpp>

#include "plugin/host.hpp"
#include "script/interpreter.hpp"

namespace nacre::script {

template <Interpreter::Binding binding>
int trampoline(lua_State* lua) {
  int results = Interpreter::invoke(lua, binding);
  return results >= 0 ? results : lua_error(lua);
}

// Leaves the Lua stack as high as it was.
class StackMark : Noncopyable {
 public:
  explicit StackMark(lua_State* lua) : lua_(lua), top_(lua_gettop(lua)) {}
  ~StackMark() { lua_settop(lua_, top_); }

 private:
  lua_State* lua_;
  int top_;
};

// A value for a message: "nil", "no value", "a table", "a function".
[[nodiscard]] std::string describe(lua_State* lua, int index);

// Text, or a number as Lua writes it; valid while it is on the stack. The caller has checked that it is one of
// both.
[[nodiscard]] std::string_view text_at(lua_State* lua, int index);

// The Lua code that called the binding; line 0 if it was no Lua code.
struct Place {
  std::string file;
  int line = 0;
};
[[nodiscard]] Place caller(lua_State* lua);

void push_text(lua_State* lua, std::string_view text);

// The error that ends the Lua code: no file and no plugin is to get past it.
void push_death(lua_State* lua);
[[nodiscard]] bool is_death(lua_State* lua, int index);

// The arguments of the Lua function `name`. Errors: `NAME: argument N (WHAT): expected a string, got a table`.
class Arguments {
 public:
  Arguments(lua_State* lua, std::string_view name) : lua_(lua), name_(name), count_(lua_gettop(lua)) {}

  [[nodiscard]] int count() const { return count_; }
  Result<std::string_view> text(int index, std::string_view what) const;  // or a number
  Result<std::string> path(int index, std::string_view what) const;       // not empty, no NUL
  Result<void> table(int index, std::string_view what) const;
  // Whether `index` is there and neither nil, false nor 0; `otherwise` if it is not there or nil.
  [[nodiscard]] bool truth(int index, bool otherwise) const;

  [[nodiscard]] Error error(int index, std::string_view what, std::string_view message) const;
  [[nodiscard]] Error expected(int index, std::string_view what, std::string_view want) const;

 private:
  lua_State* lua_;
  std::string_view name_;
  int count_;
};

// A table of functions with members that are computed: `index` gets (_, key), `assign` (table, key, value). Left on
// the stack.
void push_virtual_table(lua_State* lua, const luaL_Reg* functions, lua_CFunction index, lua_CFunction assign);
// More functions for the one on top of the stack.
void add_functions(lua_State* lua, const luaL_Reg* functions);

// The rest of `assign`: makes a plain member of the table of this name. An error (EPERM) for one of its functions.
Result<int> assign_member(lua_State* lua, std::string_view table);

// Each sets one global table.
void add_plugin_table(lua_State* lua);
void add_shell_table(lua_State* lua);
void add_task_table(lua_State* lua);
void add_coprocess_table(lua_State* lua);
// shell.shrink.
Result<int> shrink(Interpreter& self, lua_State* lua);
// Sets the global functions source and source_if_exists, and those that go with them in the table `shell` on top.
void add_source_functions(lua_State* lua);
// Makes require "nacre" work, without LUA_PATH.
void add_library(lua_State* lua);
// Makes require "posix" work where lua-posix is not installed.
void add_posix_module(lua_State* lua);

// shell.options: the options of the job as a Lua table that has no members of its own. Each read looks into
// host.options(), each assignment changes them, at any depth; nil is "not set", and assigning nil unsets. Objects
// and arrays come as further such tables, which support #, pairs, ipairs and the functions of `table`.
//
// Two members are of the shell: `verbose` (0 to 2, the level of the log; may be set) and `standalone` (read only).

void add_options_type(lua_State* lua);

// Pushes shell.options itself.
void push_options(lua_State* lua);

// The level of the log as a number: 0 notice, 1 debug, 2 trace. Setting it sets the option `verbose` too; an error,
// which starts with `name`, if `value` is neither a boolean nor a number from 0 on.
[[nodiscard]] int verbosity(const Log& log);
Result<void> set_verbosity(plugin::Host& host, const Json& value, std::string_view name);

// Whether the value at `index` is it or a part of it, and what it stands for then (null if that is no longer set).
[[nodiscard]] bool is_options(lua_State* lua, int index);
[[nodiscard]] Json options_json(lua_State* lua, int index);

}  // namespace nacre::script
