-- SPDX-License-Identifier: Apache-2.0
--
-- nacre.ends (): a table of how the tasks of the job have ended. It fills while the job runs, on the leader (shell 0) alone;
-- on other shells it stays empty. Call it while the initrc runs.
--
--   ends:all ()         an array of { record, ranks }, one for each way to end, most tasks first
--   ends:failed ()      the same, only what counts as a failure: exit codes other than 0, signals, lost tasks; no victims
--   ends:of (TASK)      the record of this task, or nil
--   ends.text (RECORD)  words for it: "exit code 3", "killed by signal 11 (core dumped)"
--
-- A record is as nacre.record makes it: text, kind, code, exitcode or signal and core (nacre-exits(7)).

local native = require "nacre.native"

local Ends = {}
Ends.__index = Ends

local count = 0

local function sorted (classes, wanted)
    local list = {}
    for _, class in pairs (classes) do
        if wanted (class) then list[#list + 1] = class end
    end
    table.sort (list, function (a, b)
        if #a.ranks ~= #b.ranks then return #a.ranks > #b.ranks end
        return a.record.text < b.record.text
    end)
    return list
end

function Ends:add (ranks, text)
    local class = self.classes[text]
    if not class then
        class = { record = native.record (text), ranks = native.idset ("") }
        self.classes[text] = class
    end
    class.ranks = class.ranks | ranks
end

function Ends:all ()
    return sorted (self.classes, function () return true end)
end

function Ends:failed ()
    return sorted (self.classes, function (class) return class.record.kind ~= "victim" and class.record.code ~= 0 end)
end

function Ends:of (task)
    for _, class in pairs (self.classes) do
        if class.ranks:has (task) then return class.record end
    end
end

-- "exit code 3", "signal 11 (core dumped)".
function Ends.text (record)
    if record.kind == "not started" then return "could not be started" end
    if record.kind == "ended" and record.signal then
        return ("killed by signal %d%s"):format (record.signal, record.core and " (core dumped)" or "")
    end
    return record.kind == "ended" and ("exit code %d"):format (record.exitcode) or record.kind
end

return function ()
    local ends = setmetatable ({ classes = {} }, Ends)
    count = count + 1
    plugin.register {
        name = count == 1 and "nacre.ends" or "nacre.ends-" .. count,
        handlers = {
            {
                topic = "job.tasks-exited",
                fn = function (_, what) ends:add (what.ranks, what.record) end,
            },
        },
    }
    return ends
end
