-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local nacre = require "nacre"
local Fake = NacreFake

TestLayout = {}

function TestLayout.setUp () Fake.install ({}, { { "n0", "0,2" }, { "n1", "1,3" }, { "", "4" } }) end

function TestLayout.tearDown () Fake.restore () end

function TestLayout.test_hosts_and_tasks ()
    local layout = nacre.layout ()
    lu.assertEquals (tostring (layout.hosts), "n[0-1],localhost")
    lu.assertEquals (layout:host (3), "n1")
    lu.assertEquals (layout:shell (4), 2)
    lu.assertNil (layout:host (5))
    lu.assertEquals (tostring (layout:tasks (0)), "0,2")
    lu.assertErrorMsgContains ("there is no shell 7", layout.tasks, layout, 7)
    lu.assertEquals (tostring (layout:hosts_of "0,2-3"), "n[0-1]")
    lu.assertEquals (tostring (layout:hosts_of "9"), "")
end

TestEnds = {}

function TestEnds.tearDown () Fake.restore () end

function TestEnds.test_a_table_of_how_tasks_ended ()
    local fake = Fake.install ()
    local ends = nacre.ends ()
    fake:call ("job.tasks-exited", { ranks = "0-5", record = "x0" })
    fake:call ("job.tasks-exited", { ranks = "6", record = "x3" })
    fake:call ("job.tasks-exited", { ranks = "8", record = "x3" })
    fake:call ("job.tasks-exited", { ranks = "7", record = "s11+" })
    fake:call ("job.tasks-exited", { ranks = "9", record = "c/s15" })
    local failed = {}
    for _, class in ipairs (ends:failed ()) do
        failed[#failed + 1] = ends.text (class.record) .. ": " .. class.ranks
    end
    lu.assertEquals (failed, { "exit code 3: 6,8", "killed by signal 11 (core dumped): 7" })
    lu.assertEquals (#ends:all (), 4)
    lu.assertEquals (tostring (ends:all ()[1].ranks), "0-5")
    lu.assertEquals (ends:of (7).signal, 11)
    lu.assertNil (ends:of (10))
end

TestDevices = {}

local function write (path, text)
    os.execute ("mkdir -p '" .. path:match ("^(.*)/") .. "'")
    local file = assert (io.open (path, "w"))
    file:write (text, "\n")
    file:close ()
end

function TestDevices.setUp ()
    TestDevices.sys = os.tmpname ()
    os.remove (TestDevices.sys)
    local sys = TestDevices.sys
    local function pci (name, class, vendor, driver, numa)
        local device = sys .. "/bus/pci/devices/" .. name
        write (device .. "/class", class)
        write (device .. "/vendor", vendor)
        write (device .. "/numa_node", numa)
        write (sys .. "/bus/pci/drivers/" .. driver .. "/bind", "")
        os.execute (("ln -s '%s/bus/pci/drivers/%s' '%s/driver'"):format (sys, driver, device))
    end
    pci ("0000:3b:00.0", "0x030200", "0x10de", "nvidia", "0")
    pci ("0000:3c:00.0", "0x120000", "0x1002", "amdgpu", "-1")
    pci ("0000:02:00.0", "0x030000", "0x1a03", "ast", "0") -- a management board
    pci ("0000:5e:00.0", "0x020000", "0x15b3", "mlx5_core", "1")
    write (sys .. "/class/net/eth0/type", "1")
    write (sys .. "/class/net/eth0/operstate", "up")
    write (sys .. "/class/net/eth0/speed", "25000")
    os.execute (("ln -s '%s/bus/pci/devices/0000:5e:00.0' '%s/class/net/eth0/device'"):format (sys, sys))
    write (sys .. "/class/net/lo/type", "772")
    write (sys .. "/class/net/br0/type", "1")
end

function TestDevices.tearDown () os.execute ("rm -rf '" .. TestDevices.sys .. "'") end

function TestDevices.test_gpus_are_those_of_the_vendors_that_make_some ()
    lu.assertEquals (nacre.devices.gpus (TestDevices.sys), {
        { pci = "0000:3b:00.0", vendor = "nvidia", driver = "nvidia", numa = 0 },
        { pci = "0000:3c:00.0", vendor = "amd", driver = "amdgpu" },
    })
end

function TestDevices.test_network_cards_are_those_with_a_device ()
    lu.assertEquals (nacre.devices.nics (TestDevices.sys), {
        { name = "eth0", kind = "ethernet", up = true, speed = 25000, driver = "mlx5_core", pci = "0000:5e:00.0", numa = 1 },
    })
end

function TestDevices.test_of_this_machine_none_is_an_error ()
    lu.assertIsTable (nacre.devices.gpus ())
    lu.assertIsTable (nacre.devices.nics ())
end

TestScratch = {}

function TestScratch.test_a_directory_is_made_and_removed ()
    local scratch = nacre.scratch (os.getenv "TMPDIR" or "/tmp")
    local path = scratch:path ()
    write (path .. "/deep/file", "x")
    scratch:remove ()
    lu.assertNil (io.open (path .. "/deep/file"))
    lu.assertErrorMsgContains ("/nowhere", nacre.scratch, "/nowhere")
end
