-- SPDX-License-Identifier: Apache-2.0
--
-- Shell option `torch`: start PyTorch's distributed programs as plain tasks, without torchrun. Sets the variables that
-- torch.distributed reads with its method env://, one task being one process of the group.
--
--   -o torch              port by the job id, so that jobs that share a node do not meet
--   -o torch.port=PORT    this port
--
-- RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, NODE_RANK, MASTER_ADDR, MASTER_PORT

if shell.options.torch == nil then return end

local nacre = require "nacre"

local wanted = nacre.option { name = "torch", members = { port = { type = "integer", from = 1, to = 65535 } } }
if not wanted then return end

local port = wanted.port or 20000 + math.tointeger (tostring (shell.info.jobid):sub (-4))

plugin.register {
    name = "torch",
    handlers = {
        {
            -- Not before: only now is the taskmap final. The first task need not be on the first node.
            topic = "shell.init",
            fn = function ()
                nacre.environment.apply {
                    "WORLD_SIZE=" .. shell.info.ntasks,
                    "LOCAL_WORLD_SIZE=" .. shell.rankinfo.ntasks,
                    "GROUP_RANK=" .. shell.info.rank,
                    "NODE_RANK=" .. shell.info.rank,
                    "MASTER_ADDR=" .. nacre.layout ():host (0),
                    "MASTER_PORT=" .. port,
                }
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
