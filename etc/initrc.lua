-- SPDX-License-Identifier: Apache-2.0
--
-- The system's initrc: what every job's shell does before any plugin gets shell.init. A job may name another with
-- the shell option `initrc`, which then replaces all of this; to add to it, use `userrc`. See nacre-shell-initrc(5).

-- The site's compiled plugins. The builtin ones are there already; one of the same name takes the builtin's place.
plugin.load { file = "*.so" }

-- The site's Lua files: lua.d/*.lua beside this file, in the order of their names.
shell.source_rcpath ("*.lua")

-- What a certain MPI needs: -o mpi=NAME[@VERSION] reads lua.d/mpi/NAME.lua, then lua.d/mpi/NAME@VERSION.lua. One of them
-- has to be there; `none` reads none.
shell.source_rcpath_option ("mpi")

-- A task that has ended well leaves the others as much time as they need, unless they wait for it in MPI; flux-shell's way,
-- 30 s after any task's end, is -o exit-timeout.after=exit.
if shell.options["exit-timeout.after"] == nil then shell.options["exit-timeout.after"] = "failure" end

-- The user's own, last, so that it has the last word: -o userrc=FILE
if shell.options.userrc then source (shell.options.userrc) end
