// SPDX-License-Identifier: Apache-2.0
#include "task/cpus.hpp"

#include <filesystem>
#include <fstream>

#include "fake_machine.hpp"
#include "plugins/affinity/hwloc.hpp"

using namespace nacre;
using kit::Machine;
using kit::MachineFiles;
using kit::set;
using value::Idset;

namespace {

using Texts = std::vector<std::string>;

std::optional<Texts> ours(const MachineFiles& files) {
  auto online = task::read_online_cpus(files.system());
  REQUIRE(online);
  REQUIRE(*online == files.online());
  auto cores = task::read_cores(*online, files.system());
  INFO((cores ? "" : cores.error().message));
  REQUIRE(cores);
  if (!*cores) return std::nullopt;
  return kit::texts(**cores);
}

Texts hwlocs(const MachineFiles& files) {
  kit::Variable root("HWLOC_FSROOT", files.path());
  kit::Variable components("HWLOC_COMPONENTS", "linux,stop");
  kit::Variable xml("HWLOC_XMLFILE", std::nullopt);
  auto topology = plugins::HwlocTopology::load(plugins::HwlocTopology::Devices::none);
  INFO((topology ? "" : topology.error().message));
  REQUIRE(topology);
  auto cores = topology->cores();
  REQUIRE(cores);
  return kit::texts(*cores);
}

}  // namespace

TEST_CASE("the cores of this machine are in hwloc's order") {
  auto online = task::read_online_cpus();
  REQUIRE(online);
  auto cores = task::read_cores(*online);
  REQUIRE(cores);
  auto topology = plugins::HwlocTopology::load(plugins::HwlocTopology::Devices::none);
  REQUIRE(topology);
  auto expected = topology->cores();
  REQUIRE(expected);
  Idset all;
  for (const Idset& cpus : *expected) all = all | cpus;
  // hwloc leaves out what the cgroup excludes.
  if (*cores && all == *online) CHECK(kit::texts(**cores) == kit::texts(*expected));
}

TEST_CASE("cpus numbered thread by thread, as x86 servers do") {
  MachineFiles files(Machine::regular({2, 1, 1, 3, 2}, "tpnlc"));
  CHECK(ours(files) == Texts{"0,6", "1,7", "2,8", "3,9", "4,10", "5,11"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("cpus numbered core by core, as POWER does") {
  MachineFiles files(Machine::regular({2, 1, 1, 2, 4}, "pnlct"));
  CHECK(ours(files) == Texts{"0-3", "4-7", "8-11", "12-15"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("cpus numbered in turn over the packages: all cores of the first package come first") {
  MachineFiles files(Machine::regular({2, 1, 1, 4, 1}, "tclnp"));
  CHECK(ours(files) == Texts{"0", "2", "4", "6", "1", "3", "5", "7"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("cpus numbered in turn over the NUMA nodes of each package") {
  MachineFiles files(Machine::regular({2, 2, 1, 2, 2}, "tpcln"));
  CHECK(ours(files) == Texts{"0,8", "2,10", "1,9", "3,11", "4,12", "6,14", "5,13", "7,15"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("cpus numbered in turn over L3 caches") {
  MachineFiles files(Machine::regular({1, 1, 3, 2, 1}, "tpncl"));
  CHECK(ours(files) == Texts{"0", "3", "1", "4", "2", "5"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("whatever the numbering, an order that is told is hwloc's") {
  int told = 0;
  for (const std::vector<unsigned>& counts :
       {std::vector<unsigned>{2, 2, 2, 2, 1}, std::vector<unsigned>{2, 1, 2, 2, 2},
        std::vector<unsigned>{1, 3, 1, 2, 2}}) {
    for (const char* order : {"pnlct", "tpnlc", "tclnp", "lpntc", "ptncl", "cnptl"}) {
      MachineFiles files(Machine::regular(counts, order));
      INFO("order " << order << " of " << counts[0] << counts[1] << counts[2] << counts[3] << counts[4]);
      auto cores = ours(files);
      if (!cores) continue;
      ++told;
      CHECK(*cores == hwlocs(files));
    }
  }
  CHECK(told >= 14);
}

TEST_CASE("cores that have lost a cpu, and are gone, leave no hole") {
  MachineFiles files(Machine::regular({2, 1, 1, 3, 2}, "tpnlc").without(set("0,4,10")));
  CHECK(ours(files) == Texts{"1,7", "2,8", "6", "3,9", "5,11"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("cores with and without threads, clusters sharing an L2 cache") {
  Machine machine;
  machine.cores = {set("0-1"), set("2-3"), set("4"), set("5"), set("6"), set("7")};
  machine.packages = {set("0-7")};
  machine.l2 = machine.clusters = {set("0-1"), set("2-3"), set("4,6"), set("5,7")};
  MachineFiles files(machine);
  CHECK(ours(files) == Texts{"0-1", "2-3", "4", "6", "5", "7"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("dies, and caches private to a core") {
  Machine machine = Machine::regular({2, 1, 1, 4, 2}, "tclnp");
  machine.dies = {set("0,4,8,12"), set("2,6,10,14"), set("1,5,9,13"), set("3,7,11,15")};
  machine.l2 = machine.clusters = machine.cores;
  MachineFiles files(machine);
  CHECK(ours(files) == Texts{"0,8", "4,12", "2,10", "6,14", "1,9", "5,13", "3,11", "7,15"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("the file names of older kernels") {
  Machine machine = Machine::regular({2, 1, 1, 2, 2}, "tclnp");
  machine.old_names = true;
  MachineFiles files(machine);
  CHECK(ours(files) == Texts{"0,4", "2,6", "1,5", "3,7"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("a kernel that tells nothing but the threads of a core") {
  Machine machine;
  machine.cores = {set("0,2"), set("1,3")};
  MachineFiles files(machine);
  CHECK(ours(files) == Texts{"0,2", "1,3"});
}

TEST_CASE("sets that overlap leave the order to hwloc") {
  Machine machine = Machine::regular({2, 1, 1, 2, 1}, "pnlct");
  machine.l3 = {set("0-2"), set("3")};
  CHECK_FALSE(ours(MachineFiles(machine)));
}

TEST_CASE("NUMA nodes that are nearer to others than to their neighbours leave the order to hwloc") {
  Machine machine = Machine::regular({4, 1, 1, 2, 1}, "pnlct");
  machine.distances = {{10, 20, 12, 20}, {20, 10, 20, 12}, {12, 20, 10, 20}, {20, 12, 20, 10}};
  MachineFiles files(machine);
  CHECK_FALSE(ours(files));
  CHECK(hwlocs(files) == Texts{"0", "1", "4", "5", "2", "3", "6", "7"});
}

TEST_CASE("nodes without cpus count among the distances only") {
  Machine machine = Machine::regular({2, 1, 1, 2, 1}, "pnlct");
  machine.nodes.emplace_back();
  machine.distances = {{10, 32, 80}, {32, 10, 80}, {80, 80, 10}};
  MachineFiles files(machine);
  CHECK(ours(files) == Texts{"0", "1", "2", "3"});
  CHECK(hwlocs(files) == *ours(files));
}

TEST_CASE("one cpu a core: told by smt/active and by the first core") {
  MachineFiles single(Machine::regular({1, 1, 1, 4, 1}, "pnlct"));
  CHECK(task::one_cpu_a_core(single.online(), single.system()));
  MachineFiles threads(Machine::regular({1, 1, 1, 2, 2}, "pnlct"));
  CHECK_FALSE(task::one_cpu_a_core(threads.online(), threads.system()));
  std::ofstream(threads.system() + "/cpu/smt/active") << "0\n";
  CHECK_FALSE(task::one_cpu_a_core(threads.online(), threads.system()));
  std::filesystem::remove(single.system() + "/cpu/smt/active");
  CHECK_FALSE(task::one_cpu_a_core(single.online(), single.system()));
}

TEST_CASE("files that are missing or no lists are errors that name them") {
  auto online = task::read_online_cpus("/no/such/system");
  REQUIRE_FALSE(online);
  CHECK(online.error().message == "/no/such/system/cpu/online: No such file or directory");
  MachineFiles files(Machine::regular({1, 1, 1, 2, 2}, "pnlct"));
  std::string core = files.system() + "/cpu/cpu2/topology/core_cpus_list";
  std::ofstream(core) << "two\n";
  auto cores = task::read_cores(files.online(), files.system());
  REQUIRE_FALSE(cores);
  CHECK(cores.error().message.starts_with(core + ": "));
}

TEST_CASE("without the kernel's files the cpus that may be used are what is known, and each is a core") {
  auto rights = task::read_cpu_rights("/no/such/system");
  REQUIRE(rights);
  CHECK(rights->allowed == task::cpus_allowed_to(0));
  CHECK(rights->online == rights->cgroup);
  CHECK((rights->allowed - rights->online).empty());
  auto cores = task::read_cores(rights->online, "/no/such/system");
  REQUIRE(cores);
  REQUIRE(*cores);
  CHECK((*cores)->size() == rights->online.size());
}
