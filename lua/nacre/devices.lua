-- SPDX-License-Identifier: Apache-2.0
--
-- nacre.devices: the gpus and network cards of this node, as /sys has them. Nothing is read before it is asked for, and
-- nothing is kept.
--
--   gpus ()   an array of { pci, vendor, driver, numa }; vendor: "nvidia", "amd" or "intel". Displays of management
--             boards are none.
--   nics ()   an array of { name, kind, up, speed, driver, pci, numa }; kind: "ethernet" or "infiniband"; speed in Mbit/s
--
-- What is not known is nil. Both take another folder than /sys, for tests.

local native = require "nacre.native"

local devices = {}

local kDisplay, kAccelerator = "0x03", "0x12" -- classes of PCI
local vendors = { ["0x10de"] = "nvidia", ["0x1002"] = "amd", ["0x8086"] = "intel" }
local kinds = { ["1"] = "ethernet", ["32"] = "infiniband" } -- of linux/if_arp.h

local function line_of (path)
    local file = io.open (path)
    if not file then return nil end
    local line = file:read ("l") -- nil too where the driver refuses, as for the speed of a link that is down
    file:close ()
    return line
end

local function numa_of (device)
    local node = math.tointeger (tonumber (line_of (device .. "/numa_node") or ""))
    return node and node >= 0 and node or nil
end

local function target_of (link)
    local path = native.realpath (link)
    return path and path:match ("([^/]+)$")
end

function devices.gpus (sys)
    local found = {}
    for _, device in ipairs (native.files ((sys or "/sys") .. "/bus/pci/devices/*")) do
        local class = (line_of (device .. "/class") or ""):sub (1, 4)
        local vendor = vendors[line_of (device .. "/vendor")]
        if vendor and (class == kDisplay or class == kAccelerator) then
            found[#found + 1] = {
                pci = device:match ("([^/]+)$"),
                vendor = vendor,
                driver = target_of (device .. "/driver"),
                numa = numa_of (device),
            }
        end
    end
    return found
end

function devices.nics (sys)
    local found = {}
    for _, link in ipairs (native.files ((sys or "/sys") .. "/class/net/*")) do
        local kind = kinds[line_of (link .. "/type")]
        local device = native.realpath (link .. "/device")
        -- Bridges, tunnels and the loopback have no device.
        if kind and device then
            local speed = math.tointeger (tonumber (line_of (link .. "/speed") or ""))
            found[#found + 1] = {
                name = link:match ("([^/]+)$"),
                kind = kind,
                up = line_of (link .. "/operstate") == "up",
                speed = speed and speed > 0 and speed or nil,
                driver = target_of (device .. "/driver"),
                pci = device:match ("([^/]+)$"),
                numa = numa_of (device),
            }
        end
    end
    return found
end

return devices
