-- SPDX-License-Identifier: Apache-2.0
--
-- Shell option `node-health`: looks at each node before tasks start. What is wrong ends the job with the node's name, and
-- is said for all that is wrong at once.
--
--   -o node-health                        all that follows has its default
--   -o node-health.memory=SIZE            at least so much memory is available (64M)
--   -o node-health.disk=SIZE              the job's TMPDIR, or /tmp, can be written and has so much room (16M)
--   -o node-health.gpus=N                 at least N gpus are on the bus (as many as R gives to this node)
--   -o node-health.links=NAME[,NAME...]   these network cards are there and up (none)
--   -o node-health.then=end|note          note: only log it (end)
--
-- With -o health it is one of its checks instead, and what is wrong is for that option to decide.

if shell.options["node-health"] == nil then return end

local nacre = require "nacre"

local wanted = nacre.option {
    name = "node-health",
    members = {
        memory = { type = "size", default = 64 << 20 },
        disk = { type = "size", default = 16 << 20 },
        gpus = { type = "integer", from = 0 },
        links = "text",
        ["then"] = { one_of = { "end", "note" }, default = "end" },
    },
}
if not wanted then return end

local function mebibytes (bytes) return ("%d MiB"):format (bytes >> 20) end

local function available_memory ()
    for line in io.lines ("/proc/meminfo") do
        local kibibytes = line:match ("^MemAvailable:%s+(%d+) kB")
        if kibibytes then return math.tointeger (kibibytes) << 10 end
    end
end

local checks = {}

function checks.memory ()
    local free = available_memory ()
    if free and free < wanted.memory then
        return ("%s of memory available, %s expected"):format (mebibytes (free), mebibytes (wanted.memory))
    end
end

function checks.disk ()
    local place = shell.getenv ("TMPDIR") or "/tmp"
    local good, room = pcall (nacre.space, place)
    if not good then return ("%s cannot be looked at"):format (place) end
    if room.readonly then return ("%s is read-only"):format (place) end
    if room.free < wanted.disk then
        return ("%s free in %s, %s expected"):format (mebibytes (room.free), place, mebibytes (wanted.disk))
    end
end

function checks.gpus ()
    local expected = wanted.gpus or #nacre.idset (shell.rankinfo.resources.gpus or "")
    if expected == 0 then return end
    local found = #nacre.devices.gpus ()
    if found < expected then return ("%d gpus on the bus, %d expected"):format (found, expected) end
end

function checks.links ()
    if not wanted.links then return end
    local up = {}
    for _, nic in ipairs (nacre.devices.nics ()) do up[nic.name] = nic.up end
    for name in wanted.links:gmatch ("[^,]+") do
        if up[name] == nil then return ("there is no network card %s"):format (name) end
        if not up[name] then return ("the network card %s has no link"):format (name) end
    end
end

local function all_wrong ()
    local wrong = {}
    for _, name in ipairs { "memory", "disk", "gpus", "links" } do
        wrong[#wrong + 1] = checks[name] ()
    end
    return #wrong > 0 and table.concat (wrong, "; ") or nil
end

plugin.register {
    name = "node-health",
    handlers = {
        {
            topic = "shell.health",
            fn = function ()
                local wrong = all_wrong ()
                if wrong then error (wrong, 0) end
            end
        },
        {
            topic = "shell.init",
            fn = function ()
                local health = shell.options.health
                local wrong = (not health or health == "off") and all_wrong ()
                if not wrong then return end
                local node = shell.rankinfo.name
                local text = ("%s: %s"):format (node ~= "" and node or "this node", wrong)
                if wanted["then"] == "note" then return shell.log_error (text) end
                shell.die (text .. " (-o node-health.then=note runs the job all the same)")
            end
        },
    }
}
