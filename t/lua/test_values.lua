-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local nacre = require "nacre"

TestIdset = {}

function TestIdset.test_made_of_text_an_id_and_ids ()
    lu.assertEquals (tostring (nacre.idset "0-3,7"), "0-3,7")
    lu.assertEquals (tostring (nacre.idset (5)), "5")
    lu.assertEquals (tostring (nacre.idset { 4, 2, 3, 3 }), "2-4")
    lu.assertEquals (tostring (nacre.idset (nacre.idset "1")), "1")
    lu.assertEquals (tostring (nacre.idset ""), "")
end

function TestIdset.test_what_is_no_set_is_refused_with_the_reason ()
    lu.assertErrorMsgContains ("nacre.idset: argument 1 (ids)", nacre.idset, "3-1")
    lu.assertErrorMsgContains ("expected an idset", nacre.idset)
    lu.assertErrorMsgContains ("[2]: expected an id, got a string", nacre.idset, { 1, "x" })
    lu.assertErrorMsgContains ("expected an idset", nacre.idset, -1)
end

function TestIdset.test_has_first_last_size_and_ids ()
    local set = nacre.idset "2-3,9"
    lu.assertTrue (set:has (3))
    lu.assertFalse (set:has (4))
    lu.assertFalse (set:has (-1))
    lu.assertEquals ({ set:first (), set:last (), #set }, { 2, 9, 3 })
    lu.assertEquals (set:ids (), { 2, 3, 9 })
    lu.assertNil (nacre.idset (""):first ())
    local seen = {}
    for id in set:each () do seen[#seen + 1] = id end
    lu.assertEquals (seen, { 2, 3, 9 })
end

function TestIdset.test_operators ()
    local a, b = nacre.idset "0-5", nacre.idset "4-8"
    lu.assertEquals (tostring (a | b), "0-8")
    lu.assertEquals (tostring (a & b), "4-5")
    lu.assertEquals (tostring (a - b), "0-3")
    lu.assertEquals (tostring (a - 2), "0-1,3-5")
    lu.assertEquals (tostring (a | "9"), "0-5,9")
    lu.assertTrue (a == nacre.idset "0-5")
    lu.assertFalse (a == b)
    lu.assertEquals ("tasks " .. a .. "!", "tasks 0-5!")
end

function TestIdset.test_a_method_called_without_its_set_says_so ()
    lu.assertErrorMsgContains ("is it called with a colon?", nacre.idset ("1").has, 1)
end

function TestIdset.test_its_metatable_is_locked ()
    lu.assertEquals (getmetatable (nacre.idset "1"), "locked")
end

TestHostlist = {}

function TestHostlist.test_made_of_text_and_names ()
    lu.assertEquals (tostring (nacre.hostlist "n[0-2],login"), "n[0-2],login")
    lu.assertEquals (tostring (nacre.hostlist { "n2", "n3", "n[7-8]" }), "n[2-3,7-8]")
    lu.assertEquals (#nacre.hostlist "", 0)
    lu.assertErrorMsgContains ("nacre.hostlist: argument 1 (hosts)", nacre.hostlist, "n[")
    lu.assertErrorMsgContains ("expected a hostlist", nacre.hostlist, 3)
end

function TestHostlist.test_positions_count_from_0 ()
    local hosts = nacre.hostlist "n[0-3]"
    lu.assertEquals (hosts:host (0), "n0")
    lu.assertNil (hosts:host (4))
    lu.assertEquals (hosts:find "n3", 3)
    lu.assertNil (hosts:find "x")
    lu.assertEquals (hosts:names (), { "n0", "n1", "n2", "n3" })
    lu.assertEquals (tostring (hosts:part (1, 2)), "n[1-2]")
    lu.assertErrorMsgContains ("an integer from 0 on", hosts.host, hosts, -1)
end

function TestHostlist.test_operators ()
    local hosts = nacre.hostlist "n1" + "n0" + nacre.hostlist "n1"
    lu.assertEquals (tostring (hosts), "n[1,0-1]")
    lu.assertEquals (tostring (hosts:sorted ()), "n[0-1]")
    lu.assertEquals (tostring (hosts - "n1"), "n[0-1]")
    lu.assertEquals ("on " .. hosts:sorted (), "on n[0-1]")
    lu.assertTrue (hosts:sorted () == nacre.hostlist "n[0-1]")
end

TestSmall = {}

function TestSmall.test_nearest ()
    lu.assertEquals (nacre.nearest ("prot", { "host", "port" }), "port")
    lu.assertNil (nacre.nearest ("colour", { "host", "port" }))
end

function TestSmall.test_durations_and_sizes ()
    lu.assertEquals (nacre.seconds "1.5m", 90)
    lu.assertEquals (nacre.seconds (7), 7)
    lu.assertErrorMsgContains ("nacre.seconds", nacre.seconds, "soon")
    lu.assertEquals (nacre.bytes "10M", 10 << 20)
    lu.assertEquals (nacre.bytes (4096), 4096)
    lu.assertErrorMsgContains ("nacre.bytes", nacre.bytes, "much")
end

function TestSmall.test_records ()
    lu.assertEquals (nacre.record "x3", { text = "x3", kind = "ended", code = 3, exitcode = 3 })
    lu.assertEquals (nacre.record "s11+", { text = "s11+", kind = "ended", code = 139, signal = 11, core = true })
    lu.assertEquals (nacre.record ("l").kind, "lost")
    lu.assertEquals (nacre.record ("c/s15").kind, "victim")
    lu.assertEquals (nacre.record ("f127").kind, "not started")
    lu.assertErrorMsgContains ("expected how a task ended", nacre.record, "y")
end

function TestSmall.test_a_part_that_is_not_there ()
    lu.assertErrorMsgContains ("nacre.enviroment: there is no such part; did you mean nacre.environment?",
        function () return nacre.enviroment end)
end

function TestSmall.test_room_of_a_file_system ()
    local room = nacre.space "/tmp"
    lu.assertTrue (room.total > 0 and room.free <= room.total)
    lu.assertFalse (room.readonly)
    lu.assertErrorMsgContains ("/nowhere: No such file", nacre.space, "/nowhere")
end
