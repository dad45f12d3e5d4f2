-- SPDX-License-Identifier: Apache-2.0
--
-- The library of initrc files: local nacre = require "nacre". See nacre-lua(3).
-- Each part is read when it is first used, so a file pays for what it uses.

local native = require "nacre.native"

local nacre = {
    idset = native.idset,
    hostlist = native.hostlist,
    nearest = native.nearest,
    matches = native.matches,
    seconds = native.seconds,
    files = native.files,
    record = native.record,
    bytes = native.bytes,
    space = native.space,
    scratch = native.scratch,
}

local parts = {
    option = "nacre.option",
    environment = "nacre.environment",
    layout = "nacre.layout",
    devices = "nacre.devices",
    ends = "nacre.ends",
}

return setmetatable (nacre, {
    __index = function (self, name)
        if not parts[name] then
            local known = {}
            for each in pairs (parts) do known[#known + 1] = each end
            for each in pairs (nacre) do known[#known + 1] = each end
            local near = native.nearest (tostring (name), known)
            error (("nacre.%s: there is no such part%s"):format (
                tostring (name), near and "; did you mean nacre." .. near .. "?" or ""), 2)
        end
        local part = require (parts[name])
        rawset (self, name, part)
        return part
    end,
})
