-- SPDX-License-Identifier: Apache-2.0
--
-- summary: logs how each task ended, and at the end how many failed.
--
--   -o summary=failed    only those that failed
--   -o summary=off       nothing

local tasks, failed = 0, 0

-- Options may still change until shell.init, so they are read when they are needed.
local function wanted(bad)
  local mode = shell.options.summary
  return mode ~= "off" and (bad or mode ~= "failed")
end

-- `task.info` is there in task.* handlers only; it describes the task that the call is about.
local function on_task_exit()
  local info = task.info
  local signal = info.signaled
  local bad = signal ~= 0 or info.exitcode ~= 0

  tasks = tasks + 1
  if bad then failed = failed + 1 end
  if not wanted(bad) then return end

  if signal ~= 0 then
    shell.log(string.format("task %d: killed by signal %d", info.rank, signal))
  else
    shell.log(string.format("task %d: exit code %d", info.rank, info.exitcode))
  end
end

local function on_shell_exit()
  if wanted(failed > 0) then
    shell.log(string.format("shell %d: %d of %d tasks failed", shell.info.rank, failed, tasks))
  end
end

plugin.register {
  name = "summary",
  handlers = {
    { topic = "task.exit", fn = on_task_exit },
    { topic = "shell.exit", fn = on_shell_exit },
  },
}
