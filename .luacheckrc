-- SPDX-License-Identifier: Apache-2.0
-- luacheck, as t/lint runs it: what the shell offers to Lua (nacre-shell-initrc(5)).
std = "lua54"
max_line_length = 125
read_globals = { "coprocess", "source", "source_if_exists" }
globals = { "plugin", "shell", "task" }

-- The tests replace these, and LuaUnit finds its tests as globals.
files["t/lua"] = { globals = { "NacreFake" }, allow_defined_top = true }
