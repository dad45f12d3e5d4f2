-- SPDX-License-Identifier: Apache-2.0
--
-- Loads the three examples from where they were built:
--
--   nacre-shell --standalone --initrc=plugins/examples/initrc.lua ...
--
-- shell.rcpath is the directory of this file.
plugin.load { file = shell.rcpath .. "/task-env/task-env.so" }
plugin.load { file = shell.rcpath .. "/taskmap-reverse/taskmap-reverse.so" }
source(shell.rcpath .. "/summary/summary.lua")
