-- SPDX-License-Identifier: Apache-2.0
--
-- An initrc that runs the tests of the Lua library (LuaUnit): test_*.lua beside it. The job fails if one does.

local lu = require "luaunit"

-- What a test calls as `shell`, `task` and `plugin`, in the place of the real ones until restore() is called.
local Fake = {}
Fake.__index = Fake

local real = { shell = shell, task = task, plugin = plugin }

-- `nodes`: { { name, taskids }, ... }. A call of shell.die raises "died: MESSAGE".
function Fake.install (options, nodes)
    local fake = setmetatable ({ variables = {}, registered = {}, logged = {} }, Fake)
    local variables = fake.variables
    shell = {
        options = options or {},
        info = { rank = 0, size = nodes and #nodes or 1, ntasks = 4, jobid = "1234" },
        get_rankinfo = function (rank)
            return { name = nodes[rank + 1][1], taskids = nodes[rank + 1][2] }
        end,
        getenv = function (name)
            if name then return variables[name] end
            local copy = {}
            for key, value in pairs (variables) do copy[key] = value end
            return copy
        end,
        setenv = function (name, value) variables[name] = tostring (value) end,
        unsetenv = function (name) variables[name] = nil end,
        log = function (text) fake.logged[#fake.logged + 1] = text end,
        die = function (text) error ("died: " .. text, 0) end,
    }
    plugin = {
        register = function (spec) fake.registered[#fake.registered + 1] = spec end,
    }
    return fake
end

function Fake.restore ()
    shell, task, plugin = real.shell, real.task, real.plugin
end

-- Calls the handlers of a topic, as the shell would.
function Fake:call (topic, what)
    for _, spec in ipairs (self.registered) do
        for _, handler in ipairs (spec.handlers) do
            if handler.topic == topic then handler.fn (topic, what) end
        end
    end
end

NacreFake = Fake

source (shell.rcpath .. "/test_*.lua")

local runner = lu.LuaUnit.new ()
runner:setOutputType ("tap")
local failed = runner:runSuite ("--pattern", "^Test")
Fake.restore ()
if failed ~= 0 then shell.die (failed .. " tests of the Lua library have failed") end
