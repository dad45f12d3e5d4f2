-- SPDX-License-Identifier: Apache-2.0
--
-- Shell option `failure-summary`: when tasks of a job have failed, a line for each way in which they did, with their hosts.
--
--   -o failure-summary              to the shell's log
--   -o failure-summary.file=FILE    as a line of FILE for each job that fails, to be read later: the time, the job's id,
--                                   its user, how many tasks have failed of how many, and the lines, parted by tabs

if shell.options["failure-summary"] == nil then return end

local nacre = require "nacre"

local wanted = nacre.option { name = "failure-summary", members = { file = "text" } }
if not wanted or shell.info.rank ~= 0 then return end

local ends = nacre.ends ()

local function lines ()
    local layout, out, failed = nacre.layout (), {}, 0
    for _, class in ipairs (ends:failed ()) do
        failed = failed + #class.ranks
        out[#out + 1] = ("%s: task%s %s on %s"):format (ends.text (class.record), #class.ranks == 1 and "" or "s",
            tostring (class.ranks), tostring (layout:hosts_of (class.ranks)))
    end
    return out, failed
end

local function append (name, text)
    local file, why = io.open (name, "a")
    if not file then return shell.log_error (why) end
    -- One write, so that lines of several jobs stay whole.
    file:setvbuf ("full")
    file:write (text, "\n")
    if not file:close () then shell.log_error (name .. " could not be written") end
end

plugin.register {
    name = "failure-summary",
    handlers = {
        {
            topic = "shell.exit",
            fn = function ()
                local list, failed = lines ()
                if failed == 0 then return end
                local count = ("%d of %d tasks failed"):format (failed, shell.info.ntasks)
                if wanted.file then
                    local fields = { os.date ("!%Y-%m-%dT%H:%M:%SZ"), tostring (shell.info.jobid),
                        shell.getenv ("USER") or "-", count }
                    return append (wanted.file, table.concat (fields, "\t") .. "\t" .. table.concat (list, "\t"))
                end
                shell.log (count)
                for _, line in ipairs (list) do shell.log (line) end
            end
        },
    }
}
