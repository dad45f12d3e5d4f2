-- SPDX-License-Identifier: Apache-2.0
--
-- nacre.option { name = NAME, value = TYPE, members = { NAME = TYPE, ... } }: what a job asks for by a shell option.
--
-- Returns nil if it does not ask for it (not set, false, 0, "off"), else a table of the members that are set, or have a
-- default, and as `value` what stands by itself, as in -o NAME=VALUE. What is wrong ends the job with the place, what was
-- expected, and for a member that is not known the nearest one.
--
-- A TYPE is "switch", "integer", "number", "text", "duration", "size", "idset", or a table { type = one of these,
-- from = N, to = N, default = VALUE } or { one_of = { TEXT, ... }, default = TEXT }. A duration becomes seconds, a size
-- bytes, an idset an idset.

local native = require "nacre.native"

local off = { ["false"] = true, ["0"] = true, off = true }
local on = { ["true"] = true, ["1"] = true, on = true }

local function refuse (place, expected, got)
    shell.die (("%s: expected %s, got %s"):format (place, expected, tostring (got)))
end

local function range (kind)
    if kind.from and kind.to then return (" from %s to %s"):format (kind.from, kind.to) end
    if kind.from then return (" from %s on"):format (kind.from) end
    return kind.to and (" up to %s"):format (kind.to) or ""
end

local function in_range (kind, number)
    return number and (not kind.from or number >= kind.from) and (not kind.to or number <= kind.to)
end

local readers = {}

function readers.switch (place, value)
    if on[tostring (value)] then return true end
    if off[tostring (value)] then return false end
    refuse (place, "true or false", value)
end

function readers.integer (place, value, kind)
    local number = math.tointeger (tonumber (value))
    if not in_range (kind, number) then refuse (place, "an integer" .. range (kind), value) end
    return number
end

function readers.number (place, value, kind)
    local number = tonumber (value)
    if not in_range (kind, number) then refuse (place, "a number" .. range (kind), value) end
    return number
end

function readers.text (place, value)
    if type (value) ~= "string" and type (value) ~= "number" then refuse (place, "text", value) end
    return tostring (value)
end

function readers.duration (place, value, kind)
    local good, seconds = pcall (native.seconds, value)
    if not good or not in_range (kind, seconds) then
        refuse (place, 'a duration such as "30s"' .. range (kind), value)
    end
    return seconds
end

function readers.size (place, value, kind)
    local good, bytes = pcall (native.bytes, value)
    if not good or not in_range (kind, bytes) then refuse (place, 'a size such as "10G"' .. range (kind), value) end
    return bytes
end

function readers.idset (place, value)
    local good, set = pcall (native.idset, value)
    if not good then refuse (place, 'a set of numbers such as "0-3,7"', value) end
    return set
end

local function one_of (place, value, texts)
    for _, each in ipairs (texts) do
        if tostring (value) == each then return each end
    end
    refuse (place, table.concat (texts, ", "), value)
end

local function read (place, value, kind)
    if type (kind) == "string" then kind = { type = kind } end
    if kind.one_of then return one_of (place, value, kind.one_of) end
    local reader = readers[kind.type]
    if not reader then error (("nacre.option: %s: there is no type %s"):format (place, tostring (kind.type)), 0) end
    return reader (place, value, kind)
end

local function names (members)
    local list = {}
    for name in pairs (members) do list[#list + 1] = name end
    table.sort (list)
    return list
end

local function refuse_member (option, name, known)
    local near = native.nearest (name, known)
    shell.die (("%s.%s: there is no such member; %s"):format (option, name,
        near and ("did you mean %s.%s?"):format (option, near) or "known: " .. table.concat (known, ", ")))
end

local function read_members (spec, given, wanted)
    local members = spec.members or {}
    for name, value in pairs (given) do
        name = tostring (name)
        if not members[name] then refuse_member (spec.name, name, names (members)) end
        wanted[name] = read (("%s.%s"):format (spec.name, name), value, members[name])
    end
end

local function fill_in (members, wanted)
    for name, kind in pairs (members or {}) do
        if wanted[name] == nil and type (kind) == "table" then wanted[name] = kind.default end
    end
    return wanted
end

return function (spec)
    if type (spec) ~= "table" or type (spec.name) ~= "string" then
        error ("nacre.option: expected a table with the option's name", 2)
    end
    local given = shell.options[spec.name]
    if given == nil or given == shell.null then return nil end
    local wanted = {}
    if type (given) == "table" then
        read_members (spec, given, wanted)
    elseif off[tostring (given)] then
        return nil
    elseif spec.value then
        wanted.value = read (spec.name, given, spec.value)
    elseif not on[tostring (given)] then
        local known = names (spec.members or {})
        refuse (spec.name, #known == 0 and "true or false" or "true or false, or " .. spec.name .. "."
            .. table.concat (known, ", " .. spec.name .. "."), given)
    end
    return fill_in (spec.members, wanted)
end
