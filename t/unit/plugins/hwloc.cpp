// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <thread>

#include "base/file.hpp"
#include "fake_host.hpp"
#include "fake_machine.hpp"
#include "folder.hpp"
#include "plugins/affinity/hwloc.hpp"
#include "plugins/affinity/job_cpus.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using kit::Machine;
using kit::MachineFiles;
using kit::set;
using kit::Variable;
using plugins::CpuRights;
using plugins::HwlocTopology;
using plugins::pick_cores;
using value::Idset;

namespace {

using Texts = std::vector<std::string>;

struct Sharing {
  Sharing() {
    host.environment().set("FLUX_JOB_TMPDIR", directory);
    host.environment().set("HWLOC_COMPONENTS", "x86");
    host.stack().push(plugins::make_hwloc(host));
    host.make_tasks();
  }

  std::string init() {
    Result<int> called = host.call("shell.init");
    return called ? "" : called.error().message;
  }

  // The cores in the file whose path the tasks get.
  Texts shared_cores() {
    auto path = host.tasks()[0]->command().env.get("HWLOC_XMLFILE");
    REQUIRE(path);
    Variable xml("HWLOC_XMLFILE", std::string(*path));
    Variable components("HWLOC_COMPONENTS", std::nullopt);
    auto topology = HwlocTopology::load(HwlocTopology::Devices::none);
    REQUIRE(topology);
    auto cores = topology->cores();
    REQUIRE(cores);
    return kit::texts(*cores);
  }

  kit::TemporaryFolder folder;
  std::string directory = folder.path();
  kit::FakeHost host{1};
};

Texts cores_now() {
  auto topology = HwlocTopology::load(HwlocTopology::Devices::none);
  REQUIRE(topology);
  return kit::texts(*topology->cores());
}

constexpr const char* kHwlocError = "plugin 'hwloc': shell.init: ";

}  // namespace

TEST_CASE("without hwloc.xmlfile nothing is discovered and nothing is set") {
  Sharing sharing;
  CHECK(sharing.init().empty());
  CHECK_FALSE(sharing.host.environment().get("HWLOC_XMLFILE"));
  CHECK_FALSE(sharing.host.environment().get("HWLOC_THISSYSTEM"));
  CHECK(sharing.host.environment().get("HWLOC_COMPONENTS") == "x86");
  CHECK(std::filesystem::is_empty(sharing.directory));
}

TEST_CASE("hwloc.xmlfile gives the tasks the topology of the node") {
  Sharing sharing;
  sharing.host.options().set("hwloc.xmlfile", 1);
  REQUIRE(sharing.init().empty());
  job::Environment& environment = sharing.host.tasks()[0]->command().env;
  CHECK(environment.get("HWLOC_XMLFILE") == sharing.directory + "/hwloc.xml");
  CHECK(environment.get("HWLOC_THISSYSTEM") == "1");
  CHECK_FALSE(environment.get("HWLOC_COMPONENTS"));
  CHECK(sharing.shared_cores() == cores_now());
  auto text = read_file(sharing.directory + "/hwloc.xml");
  REQUIRE(text);
  CHECK(text->find("<topology version=\"2.0\"") != std::string::npos);
}

TEST_CASE("hwloc.restrict leaves the job's cores only") {
  auto rights = plugins::read_cpu_rights();
  REQUIRE(rights);
  if (rights->allowed != rights->online) return;
  Texts all = cores_now();
  Sharing sharing;
  sharing.host.options().set("hwloc.xmlfile", true);
  sharing.host.options().set("hwloc.restrict", true);
  REQUIRE(sharing.init().empty());
  CHECK(sharing.shared_cores() == Texts{all[0]});
  // Other plugins still get all cores.
  plugin::Call call("hwloc.cores");
  REQUIRE(sharing.host.stack().call(call));
  CHECK(call.out["cores"] == Json(all));
}

TEST_CASE("the options of hwloc that make no sense are errors") {
  Sharing value;
  value.host.options().set("hwloc.xmlfile", "foo");
  CHECK(value.init() == std::string(kHwlocError) + "hwloc.xmlfile: expected on or off, got \"foo\"");
  Sharing alone;
  alone.host.options().set("hwloc.restrict", 1);
  CHECK(alone.init() ==
        std::string(kHwlocError) + "hwloc.restrict: there is no topology file to restrict; add -o hwloc.xmlfile");
  Sharing nowhere;
  nowhere.host.options().set("hwloc.xmlfile", 1);
  nowhere.host.environment().unset("FLUX_JOB_TMPDIR");
  CHECK(nowhere.init() == std::string(kHwlocError) + "hwloc.xmlfile: no FLUX_JOB_TMPDIR to put the file into");
  Sharing gone;
  gone.host.options().set("hwloc.xmlfile", 1);
  gone.host.environment().set("FLUX_JOB_TMPDIR", "/no/such/directory");
  CHECK(gone.init() == std::string(kHwlocError) +
                           "hwloc.xmlfile: cannot write /no/such/directory/hwloc.xml: No such file or directory");
}

TEST_CASE("hwloc.cores tells the order that sysfs leaves open, once discovered from then on") {
  Machine machine = Machine::regular({4, 1, 1, 1, 1}, "pnlct");
  machine.distances = {{10, 20, 12, 20}, {20, 10, 20, 12}, {12, 20, 10, 20}, {20, 12, 20, 10}};
  Sharing sharing;
  plugin::Call call("hwloc.cores");
  {
    MachineFiles files(machine);
    Variable root("HWLOC_FSROOT", files.path());
    Variable components("HWLOC_COMPONENTS", "linux,stop");
    REQUIRE(sharing.host.stack().call(call));
    CHECK(call.out["cores"] == Json({"0", "2", "1", "3"}));
  }
  plugin::Call again("hwloc.cores");
  REQUIRE(sharing.host.stack().call(again));
  CHECK(again.out["cores"] == call.out["cores"]);
}

TEST_CASE("a topology without cores, or none at all, is an error") {
  Variable synthetic("HWLOC_SYNTHETIC", "numa:2 pu:2");
  Variable components("HWLOC_COMPONENTS", "synthetic,stop");
  auto topology = HwlocTopology::load(HwlocTopology::Devices::none);
  REQUIRE(topology);
  auto cores = topology->cores();
  REQUIRE_FALSE(cores);
  CHECK(cores.error().message == "hwloc sees no cores");
  CHECK_FALSE(topology->restrict_to(*Idset::parse("77")));
}

namespace {

// Four cores with two threads each.
std::vector<Idset> four_cores() { return {set("0,4"), set("1,5"), set("2,6"), set("3,7")}; }

CpuRights rights(std::string_view cgroup, std::string_view allowed) {
  return {set("0-7"), set(cgroup), set(allowed)};
}

Texts pick(std::string_view ids, const CpuRights& rights) {
  auto picked = pick_cores(set(ids), four_cores(), rights);
  if (!picked) return {picked.error().message};
  return kit::texts(*picked);
}

}  // namespace

TEST_CASE("the ids of R are logical cores: all threads of each") {
  CHECK(pick("0-3", rights("0-7", "0-7")) == Texts{"0,4", "1,5", "2,6", "3,7"});
  CHECK(pick("1,3", rights("0-7", "0-7")) == Texts{"1,5", "3,7"});
  CHECK(pick("", rights("0-7", "0-7")).empty());
}

TEST_CASE("a core that the node does not have is named") {
  CHECK(pick("2-4", rights("0-7", "0-7")) == Texts{"R gives core 4 of this node, which has 4 cores (0-3)"});
  auto one = pick_cores(set("1"), {set("0")}, {set("0"), set("0"), set("0")});
  REQUIRE_FALSE(one);
  CHECK(one.error().message == "R gives core 1 of this node, which has 1 core (0)");
}

TEST_CASE("ids do not count cores that the cgroup excludes") {
  CHECK(pick("0", rights("2-3,6-7", "2-3,6-7")) == Texts{"2,6"});
  CHECK(pick("2", rights("2-3,6-7", "2-3,6-7")) == Texts{"R gives core 2 of this node, which has 2 cores (0-1)"});
  CHECK(pick("0-1", rights("0-3", "0-3")) == Texts{"0", "1"});
}

TEST_CASE("ids do count cores that the shell's own binding excludes") {
  CHECK(pick("1-2", rights("0-7", "1-7")) == Texts{"1,5", "2,6"});
  CHECK(pick("0-1", rights("0-7", "1-3,5-7")) == Texts{"1,5"});
  CHECK(pick("1", rights("0-7", "5-7")) == Texts{"5"});
}

TEST_CASE("a shell confined to as many cores as R gives is confined to the job's") {
  CHECK(pick("0-1", rights("2-3,6-7", "2-3,6-7")) == Texts{"2,6", "3,7"});
  CHECK(pick("2-3", rights("2-3,6-7", "2-3,6-7")) == Texts{"2,6", "3,7"});
  CHECK(pick("10-11", rights("0-7", "2-3")) == Texts{"2", "3"});
}

TEST_CASE("cores of which the shell may use nothing are an error") {
  CHECK(pick("0", rights("0-7", "2-3,6-7")) ==
        Texts{"the job has core 0, of which the shell may use nothing: it is confined to cpus 2-3,6-7"});
  CHECK(pick("1-3", rights("0-7", "4")) ==
        Texts{"the job has cores 1-3, of which the shell may use nothing: it is confined to cpu 4"});
}

TEST_CASE("the rights of a thread: its own binding, within what the cgroup grants") {
  auto before = plugins::read_cpu_rights();
  REQUIRE(before);
  CHECK_FALSE(before->allowed.empty());
  CHECK((before->allowed - before->cgroup).empty());
  CHECK((before->cgroup - before->online).empty());
  Idset one = Idset::range(*before->allowed.first(), *before->allowed.first());
  Result<CpuRights> bound = before;
  // In a thread, so that no binding is left behind.
  std::thread([&] {
    task::CpuMask mask = plugins::mask_of(one);
    ::sched_setaffinity(0, mask.size() * sizeof(mask[0]), reinterpret_cast<cpu_set_t*>(mask.data()));
    bound = plugins::read_cpu_rights();
  }).join();
  REQUIRE(bound);
  CHECK(bound->allowed == one);
  CHECK(bound->cgroup == before->cgroup);
  CHECK(plugins::read_cpu_rights()->allowed == before->allowed);
}

TEST_CASE("the cpus of a job that has all cores are all that the shell may use") {
  auto rights = plugins::read_cpu_rights();
  REQUIRE(rights);
  auto cores = plugins::read_cores(rights->online);
  REQUIRE(cores);
  if (!*cores) return;
  kit::FakeHost host(static_cast<std::uint32_t>((*cores)->size()));
  auto cpus = plugins::job_cpus(host, *rights);
  INFO((cpus ? "" : cpus.error().message));
  REQUIRE(cpus);
  CHECK(*cpus == rights->allowed);
}

TEST_CASE("a mask has a bit for each cpu") {
  CHECK(plugins::mask_of({}).empty());
  CHECK(plugins::mask_of(set("0-1,63")) == task::CpuMask{0x8000000000000003UL});
  CHECK(plugins::mask_of(set("64,129")) == task::CpuMask{0, 1, 2});
}
