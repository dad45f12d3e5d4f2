-- SPDX-License-Identifier: Apache-2.0
--
-- Shell option `omp-threads`: how many OpenMP threads a task starts. Without it, an OpenMP program starts one for each
-- cpu that it may run on, which is too many where the tasks of a node are not bound.
--
--   -o omp-threads=N          N
--   -o omp-threads=per-task   the cores of this node divided by its tasks, 1 at least
--
-- OMP_NUM_THREADS in the job's environment is left as it is.

if shell.options["omp-threads"] == nil then return end

local nacre = require "nacre"

local wanted = nacre.option { name = "omp-threads", value = "text" }
if not wanted then return end

local threads = math.tointeger (tonumber (wanted.value))
if wanted.value == "per-task" then
    local here = shell.rankinfo
    if here.ntasks == 0 then return end
    threads = math.max (1, here.resources.ncores // here.ntasks)
elseif not threads or threads < 1 then
    shell.die ("omp-threads: expected a number of threads or per-task, got " .. wanted.value)
end

nacre.environment.apply { "OMP_NUM_THREADS?=" .. threads }
