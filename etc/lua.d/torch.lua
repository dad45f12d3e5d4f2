-- SPDX-License-Identifier: Apache-2.0
--
-- Shell option `torch`: start PyTorch's distributed programs as plain tasks, without torchrun. Sets the variables that
-- torch.distributed reads with its method env://, one task being one process of the group.
--
--   -o torch              port by the job id, so that jobs that share a node do not meet
--   -o torch.port=PORT    this port
--
-- RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT

local option = shell.options.torch
if not option or option == 0 then return end

local function default_port ()
    local last_digits = tostring (shell.info.jobid):sub (-4)
    return 20000 + math.tointeger (tonumber (last_digits))
end

-- The node of task 0, which need not be the first one: the taskmap decides.
local function master_address ()
    for rank = 0, shell.info.size - 1 do
        local node = shell.get_rankinfo (rank)
        if node.taskids:match ("^0%f[%D]") then
            return node.name ~= "" and node.name or "localhost"
        end
    end
end

local port = type (option) == "table" and option.port or default_port ()
if not math.tointeger (port) or port < 1 or port > 65535 then
    shell.die ("torch.port: expected 1 to 65535, got " .. tostring (port))
end

plugin.register {
    name = "torch",
    handlers = {
        {
            -- Not before: only now is the taskmap final.
            topic = "shell.init",
            fn = function ()
                shell.setenv ("WORLD_SIZE", shell.info.ntasks)
                shell.setenv ("LOCAL_WORLD_SIZE", shell.rankinfo.ntasks)
                shell.setenv ("GROUP_RANK", shell.info.rank)
                shell.setenv ("MASTER_ADDR", master_address ())
                shell.setenv ("MASTER_PORT", math.tointeger (port))
            end
        },
        {
            topic = "task.init",
            fn = function ()
                task.setenv ("RANK", task.info.rank)
                task.setenv ("LOCAL_RANK", task.info.localid)
            end
        },
    }
}
