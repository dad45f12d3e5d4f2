-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local nacre = require "nacre"
local Fake = NacreFake

TestOption = {}

local spec = {
    name = "torch",
    members = {
        port = { type = "integer", from = 1, to = 65535 },
        wait = { type = "duration", default = 5 },
        how = { one_of = { "fast", "safe" }, default = "safe" },
        ranks = "idset",
        room = "size",
        loud = "switch",
    },
}

local function read (value)
    Fake.install { torch = value }
    return nacre.option (spec)
end

local function death (value)
    local _, message = pcall (read, value)
    return message
end

function TestOption.tearDown () Fake.restore () end

function TestOption.test_what_is_not_asked_for_is_nil ()
    lu.assertNil (read (nil))
    lu.assertNil (read (false))
    lu.assertNil (read (0))
    lu.assertNil (read "off")
end

function TestOption.test_members_and_their_defaults ()
    lu.assertEquals (read (true), { wait = 5, how = "safe" })
    lu.assertEquals (read (1), { wait = 5, how = "safe" })
    local wanted = read { port = "29500", wait = "2m", how = "fast", ranks = "0-3", room = "1k", loud = 1 }
    lu.assertEquals (wanted.port, 29500)
    lu.assertEquals (wanted.wait, 120)
    lu.assertEquals (wanted.how, "fast")
    lu.assertEquals (tostring (wanted.ranks), "0-3")
    lu.assertEquals (wanted.room, 1024)
    lu.assertTrue (wanted.loud)
end

function TestOption.test_what_is_wrong_is_named ()
    lu.assertEquals (death { port = 0 }, "died: torch.port: expected an integer from 1 to 65535, got 0")
    lu.assertEquals (death { port = "x" }, "died: torch.port: expected an integer from 1 to 65535, got x")
    lu.assertEquals (death { how = "slow" }, "died: torch.how: expected fast, safe, got slow")
    lu.assertEquals (death { wait = "soon" }, 'died: torch.wait: expected a duration such as "30s", got soon')
    lu.assertEquals (death { ranks = "9-" }, 'died: torch.ranks: expected a set of numbers such as "0-3,7", got 9-')
    lu.assertEquals (death { loud = "very" }, "died: torch.loud: expected true or false, got very")
    lu.assertEquals (death "yes",
        "died: torch: expected true or false, or torch.how, torch.loud, torch.port, torch.ranks, torch.room, "
        .. "torch.wait, got yes")
end

function TestOption.test_a_misspelt_member_gets_the_nearest ()
    lu.assertEquals (death { prot = 1 }, "died: torch.prot: there is no such member; did you mean torch.port?")
    lu.assertEquals (death { colour = 1 },
        "died: torch.colour: there is no such member; known: how, loud, port, ranks, room, wait")
end

function TestOption.test_a_value_of_its_own ()
    Fake.install { threads = 4 }
    lu.assertEquals (nacre.option { name = "threads", value = "integer" }, { value = 4 })
    Fake.install { threads = "per-task" }
    lu.assertEquals (nacre.option { name = "threads", value = "text" }, { value = "per-task" })
end

TestEnvironment = {}

function TestEnvironment.setUp ()
    TestEnvironment.fake = Fake.install ()
end

function TestEnvironment.tearDown () Fake.restore () end

local function apply (rules)
    nacre.environment.apply (rules)
    return TestEnvironment.fake.variables
end

function TestEnvironment.test_globs_unset ()
    TestEnvironment.fake.variables.PMI_RANK = "1"
    TestEnvironment.fake.variables.PMI_SIZE = "2"
    TestEnvironment.fake.variables.PM = "3"
    lu.assertEquals (apply { "-PMI_*" }, { PM = "3" })
end

function TestEnvironment.test_values_are_set_and_expanded ()
    TestEnvironment.fake.variables.HOME = "/h"
    local set = apply { "A=1", "B=${HOME}/b", "C=$HOME/c", "D=$$HOME", "E=x$NONE-y", "F=", "G=a=b" }
    lu.assertEquals ({ set.A, set.B, set.C, set.D, set.E, set.F, set.G },
        { "1", "/h/b", "/h/c", "$HOME", "x-y", "", "a=b" })
end

function TestEnvironment.test_unless_set_leaves_what_is_there ()
    TestEnvironment.fake.variables.A = "mine"
    lu.assertEquals (apply { "A?=1", "B?=2" }, { A = "mine", B = "2" })
end

function TestEnvironment.test_directories_go_to_the_front ()
    lu.assertEquals (apply { "/a:LIST", "/b:LIST" }, { LIST = "/b:/a" })
end

function TestEnvironment.test_a_name_is_copied_from_the_shell ()
    lu.assertEquals (apply { "PATH" }, { PATH = os.getenv "PATH" })
    TestEnvironment.fake.variables.NACRE_NOT_THERE = "x"
    lu.assertNil (apply ({ "NACRE_NOT_THERE" }).NACRE_NOT_THERE)
end

function TestEnvironment.test_what_is_no_rule_is_refused ()
    lu.assertErrorMsgContains ("[2]: expected -GLOB, NAME=VALUE", apply, { "A=1", "9 lives" })
    lu.assertErrorMsgContains ("expected an array of rules", apply, "A=1")
end
