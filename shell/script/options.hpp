// SPDX-License-Identifier: Apache-2.0
//
// shell.options: the options of the job as a Lua table that has no members of its own. Each read looks into
// host.options(), each assignment changes them, at any depth; nil is "not set", and assigning nil unsets. Objects
// and arrays come as further such tables, which support #, pairs, ipairs and the functions of `table`.
//
// Two members are of the shell: `verbose` (0 to 2, the level of the log; may be set) and `standalone` (read only).
#pragma once

#include <string_view>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "plugin/host.hpp"

struct lua_State;

namespace nacre::script {

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
