-- SPDX-License-Identifier: Apache-2.0
--
-- Shell option `scratch`: a directory of the job's own on each node, in a place for large files, as long as the job runs.
--
--   -o scratch            below the first of these that is a directory to write to: $SCRATCH, /scratch, /local, /var/tmp
--   -o scratch.dir=DIR    below DIR
--   -o scratch.min=SIZE   the job ends before it starts where DIR has less room: scratch.min=100G
--
-- The tasks find it in NACRE_SCRATCH. What jobs that were killed have left there is removed first.

if shell.options.scratch == nil then return end

local nacre = require "nacre"

local wanted = nacre.option { name = "scratch", members = { dir = "text", min = "size" } }
if not wanted then return end

local function places ()
    if wanted.dir then return { wanted.dir } end
    return { shell.getenv ("SCRATCH") or os.getenv ("SCRATCH"), "/scratch", "/local", "/var/tmp" }
end

local function here ()
    local node = shell.rankinfo.name
    return node ~= "" and " on " .. node or ""
end

-- The first place that takes a directory.
local function make ()
    local last
    local list = places ()
    for index = 1, 4 do
        if list[index] then
            local good, made = pcall (nacre.scratch, list[index])
            if good then return made, list[index] end
            last = made
        end
    end
    shell.die (("there is no place to write to%s: %s"):format (here (), tostring (last)))
end

local function check_room (place)
    local free = nacre.space (place).free
    if not wanted.min or free >= wanted.min then return end
    shell.die (("%s%s has %d MiB free, and scratch.min asks for %d: clean it up, or name another by scratch.dir")
        :format (place, here (), free >> 20, wanted.min >> 20))
end

local scratch

plugin.register {
    name = "scratch",
    handlers = {
        {
            topic = "shell.init",
            fn = function ()
                local place
                scratch, place = make ()
                shell.setenv ("NACRE_SCRATCH", scratch:path ())
                check_room (place)
            end
        },
        {
            topic = "shell.exit",
            fn = function ()
                if scratch then scratch:remove () end
            end
        },
    }
}
