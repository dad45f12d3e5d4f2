-- SPDX-License-Identifier: Apache-2.0
--
-- Shell option `nic-affinity=closest`: variables by which libraries use the network cards near a task's cpus. The shell
-- puts their names into NACRE_NICS: ports of RDMA devices as mlx5_0:1, devices without ports as cxi0, else network
-- interfaces as eth0.
--
--   UCX_NET_DEVICES        UCX: ports, or interfaces
--   NCCL_IB_HCA            NCCL and RCCL: ports, by their full names
--   NCCL_SOCKET_IFNAME     the same, interfaces, where there are no ports
--   FI_VERBS_DEVICE_NAME   libfabric's verbs: a device; older ones take no list, so only where one card is near
--   FI_CXI_DEVICE_NAME     libfabric's cxi: devices
--   FI_TCP_IFACE           libfabric's tcp: an interface, where one card is near
--
-- What is set already in a task's environment stays. For other libraries a site adds a file of its own like this one.

if shell.options["nic-affinity"] == nil then return end

local function names_like (all, pattern)
    local out = {}
    for name in all:gmatch ("[^,]+") do
        if name:find (pattern) then out[#out + 1] = name end
    end
    return out
end

local function offer (variable, value) task.setenv (variable, value, false) end

local function offer_ports (ports)
    local list = table.concat (ports, ",")
    offer ("UCX_NET_DEVICES", list)
    offer ("NCCL_IB_HCA", "=" .. list)
    if #ports == 1 then offer ("FI_VERBS_DEVICE_NAME", (list:gsub (":%d+$", ""))) end
end

local function offer_interfaces (interfaces)
    local list = table.concat (interfaces, ",")
    offer ("UCX_NET_DEVICES", list)
    offer ("NCCL_SOCKET_IFNAME", "=" .. list)
    if #interfaces == 1 then offer ("FI_TCP_IFACE", list) end
end

plugin.register {
    name = "nic-affinity-variables",
    handlers = {
        {
            topic = "task.init",
            fn = function ()
                local all = task.getenv ("NACRE_NICS")
                if not all then return end
                local ports = names_like (all, ":%d+$")
                local cxi = names_like (all, "^cxi%d+$")
                if #ports > 0 then offer_ports (ports) end
                if #cxi > 0 then offer ("FI_CXI_DEVICE_NAME", table.concat (cxi, ",")) end
                if #ports == 0 and #cxi == 0 then offer_interfaces (names_like (all, ".")) end
            end,
        },
    },
}
