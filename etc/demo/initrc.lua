-- SPDX-License-Identifier: Apache-2.0
--
-- The demo's plugin: greets from each task's environment, and counts how the tasks ended.
local ended = 0

plugin.register {
  name = "demo",
  handlers = {
    {
      topic = "shell.init",
      fn = function()
        shell.log(string.format("%d tasks on %d cores of this node", shell.info.ntasks, shell.rankinfo.resources.ncores))
      end,
    },
    {
      topic = "task.init",
      fn = function() task.setenv("GREETING", "hello from Lua to task " .. task.info.rank) end,
    },
    {
      topic = "task.exit",
      fn = function()
        ended = ended + 1
        if ended == shell.info.ntasks then shell.log("all " .. ended .. " tasks have ended") end
      end,
    },
  },
}
