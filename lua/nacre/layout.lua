-- SPDX-License-Identifier: Apache-2.0
--
-- nacre.layout (): which tasks are on which hosts, as it is when this is called. Final from the topic shell.init on; before
-- that the option taskmap may still change it.
--
--   layout.hosts             a hostlist, by the ranks of the shells
--   layout:shell (TASK)      the rank of the shell that has this task, or nil
--   layout:host (TASK)       its host's name, or nil
--   layout:tasks (SHELL)     an idset: the tasks of that shell
--   layout:hosts_of (TASKS)  a hostlist: where these tasks are, each host once; TASKS: what nacre.idset takes

local native = require "nacre.native"

local Layout = {}
Layout.__index = Layout

function Layout:shell (task)
    for rank, tasks in pairs (self.by_shell) do
        if tasks:has (task) then return rank end
    end
end

function Layout:host (task)
    local rank = self:shell (task)
    return rank and self.hosts:host (rank)
end

function Layout:tasks (rank)
    local tasks = self.by_shell[rank]
    if not tasks then error (("layout:tasks: there is no shell %s"):format (tostring (rank)), 2) end
    return tasks
end

function Layout:hosts_of (tasks)
    tasks = native.idset (tasks)
    local names = {}
    for rank = 0, #self.hosts - 1 do
        if #(self.by_shell[rank] & tasks) > 0 then names[#names + 1] = self.hosts:host (rank) end
    end
    return native.hostlist (names)
end

return function ()
    local names, by_shell = {}, {}
    for rank = 0, shell.info.size - 1 do
        local node = shell.get_rankinfo (rank)
        names[rank + 1] = node.name ~= "" and node.name or "localhost"
        by_shell[rank] = native.idset (node.taskids)
    end
    return setmetatable ({ hosts = native.hostlist (names), by_shell = by_shell }, Layout)
end
