-- SPDX-License-Identifier: Apache-2.0
--
-- nacre.environment: changes of the environment as a list of rules, each a text:
--
--   -GLOB          unset the variables whose names match
--   NAME=VALUE     set; $OTHER and ${OTHER} in VALUE are what these variables are then ("" where unset), $$ is a dollar
--   NAME?=VALUE    the same, unless it is set
--   NAME           as the shell itself was started with; unset where it was not
--   DIR:NAME       put DIR at the front of a list with colons
--
-- apply (rules [, of]): `of` is what has getenv, setenv and unsetenv: `shell`, for all tasks (the default), or `task`.

local native = require "nacre.native"

local environment = {}

local function expand (text, of)
    text = text:gsub ("%$(%$?)({?)([%a_]?[%w_]*)(}?)", function (dollar, open, name, close)
        if dollar ~= "" then return "$" .. open .. name .. close end
        if name == "" or (open == "") ~= (close == "") and open ~= "" then return nil end
        local value = of.getenv (name) or ""
        return open == "" and value .. close or value
    end)
    return text
end

local function strip (glob, of)
    for name in pairs (of.getenv ()) do
        if native.matches (glob, name) then of.unsetenv (name) end
    end
end

local function prepend (directory, name, of)
    local rest = of.getenv (name)
    of.setenv (name, rest and rest ~= "" and directory .. ":" .. rest or directory)
end

local function apply_rule (rule, of)
    local glob = rule:match ("^%-(.+)$")
    if glob then return strip (glob, of) end
    local name, unless_set, value = rule:match ("^([%a_][%w_]*)(%??)=(.*)$")
    if name then
        if unless_set == "" or not of.getenv (name) then of.setenv (name, expand (value, of)) end
        return
    end
    if rule:match ("^[%a_][%w_]*$") then
        local own = os.getenv (rule)
        if own then of.setenv (rule, own) else of.unsetenv (rule) end
        return
    end
    local directory, list = rule:match ("^(.+):([%a_][%w_]*)$")
    if directory then return prepend (expand (directory, of), list, of) end
    return ("expected -GLOB, NAME=VALUE, NAME?=VALUE, NAME or DIR:NAME, got '%s'"):format (rule)
end

function environment.apply (rules, of)
    if type (rules) ~= "table" then error ("nacre.environment.apply: expected an array of rules", 2) end
    for index, rule in ipairs (rules) do
        local wrong = type (rule) ~= "string" and "expected text" or apply_rule (rule, of or shell)
        if wrong then error (("nacre.environment.apply: [%d]: %s"):format (index, wrong), 2) end
    end
end

return environment
