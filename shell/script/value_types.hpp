// SPDX-License-Identifier: Apache-2.0
//
// What the module nacre.native has of types and of the node: idsets, hostlists, scratch directories; see
// nacre-lua(3).
#pragma once

#include "base/result.hpp"
#include "script/interpreter.hpp"
#include "value/hostlist.hpp"
#include "value/idset.hpp"

namespace nacre::script {

void add_idset_type(lua_State* lua);
void add_hostlist_type(lua_State* lua);
void add_scratch_type(lua_State* lua);

// Of text, an id, an array of ids, or an idset.
Result<int> make_idset(Interpreter& self, lua_State* lua);
// Of text, an array of texts, or a hostlist.
Result<int> make_hostlist(Interpreter& self, lua_State* lua);

Result<int> make_scratch(Interpreter& self, lua_State* lua);
Result<int> space_of(Interpreter& self, lua_State* lua);

int push_idset(lua_State* lua, value::Idset set);

}  // namespace nacre::script
