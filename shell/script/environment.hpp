// SPDX-License-Identifier: Apache-2.0
//
// getenv, setenv and unsetenv of Lua, over the environment of the job or of a task. `name` is that of the Lua
// function, for errors.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "job/environment.hpp"

struct lua_State;

namespace nacre::script {

// (VAR): its value or nil; (): all as a table.
Result<int> get_variable(lua_State* lua, const job::Environment& env, std::string_view name);
// (VAR, VALUE, [OVERWRITE]): a number is a value too. OVERWRITE false or 0 keeps a variable that is set. Gives
// true.
Result<int> set_variable(lua_State* lua, job::Environment& env, std::string_view name);
// (VAR). Gives true.
Result<int> unset_variable(lua_State* lua, job::Environment& env, std::string_view name);
// (VAR, PATH): puts PATH at the front of a list with colons.
Result<int> prepend_path(lua_State* lua, job::Environment& env, std::string_view name);
// (PATTERN, ...): unsets all variables whose name matches one of these Lua patterns.
Result<int> strip_variables(lua_State* lua, job::Environment& env, std::string_view name);

}  // namespace nacre::script
