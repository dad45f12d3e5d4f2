// SPDX-License-Identifier: Apache-2.0
//
// The planner, over machines as hwloc describes them.
#include "plugins/affinity/placement.hpp"

#include "fake_machine.hpp"
#include "folder.hpp"
#include "plugins/affinity/hwloc.hpp"

// Topologies of machines that are not at hand: hwloc's synthetic ones, and those of t/kit/topology_xml.py.

namespace nacre::kit {

inline plugins::NodeTopology node_of(const std::optional<std::string>& file) {
  auto loaded = plugins::HwlocTopology::load(plugins::HwlocTopology::Devices::important, file);
  INFO((loaded ? "" : loaded.error().message));
  REQUIRE(loaded);
  auto node = loaded->node();
  INFO((node ? "" : node.error().message));
  REQUIRE(node);
  return *std::move(node);
}

// As "package:2 numa:2 core:4 pu:2".
inline plugins::NodeTopology synthetic(const std::string& description) {
  Variable xml("HWLOC_XMLFILE", std::nullopt);
  Variable components("HWLOC_COMPONENTS", std::nullopt);
  Variable variable("HWLOC_SYNTHETIC", description);
  return node_of(std::nullopt);
}

// Writes the machine that the script makes from these arguments.
inline void write_machine(const std::string& arguments, const std::string& file) {
  std::string command = fmt::format("python3 {}/t/kit/topology_xml.py {} >{}", NACRE_SOURCE_DIR, arguments, file);
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT: of this test's own words
}

inline plugins::NodeTopology machine(const std::string& arguments) {
  TemporaryFolder folder;
  std::string file = folder.path("machine.xml");
  write_machine(arguments, file);
  return node_of(file);
}

}  // namespace nacre::kit

using namespace nacre;
using kit::machine;
using kit::synthetic;
using plugins::CpuLevel;
using plugins::NodeTopology;
using plugins::PlacedTask;
using plugins::Placement;
using plugins::PlacementRequest;
using value::Idset;
using Gpus = PlacementRequest::Gpus;
using Texts = std::vector<std::string>;

namespace {

Placement placed(const NodeTopology& node, PlacementRequest request) {
  if (request.cores.empty()) request.cores = node.cpus.cores;
  auto out = plugins::place(node, request);
  INFO((out ? "" : out.error().message));
  REQUIRE(out);
  REQUIRE(out->tasks.size() == request.tasks);
  return *std::move(out);
}

PlacementRequest request_for(std::size_t tasks, CpuLevel level = CpuLevel::core) {
  PlacementRequest out;
  out.tasks = tasks;
  out.level = level;
  return out;
}

Texts cpus(const Placement& placement) {
  Texts out;
  for (const PlacedTask& task : placement.tasks) out.push_back(task.cpus.str());
  return out;
}

Texts cpus(const NodeTopology& node, std::size_t tasks, CpuLevel level = CpuLevel::core) {
  return cpus(placed(node, request_for(tasks, level)));
}

Texts gpus(const Placement& placement) {
  Texts out;
  for (const PlacedTask& task : placement.tasks) out.push_back(fmt::format("{}", fmt::join(task.gpus, ",")));
  return out;
}

Texts nics(const Placement& placement) {
  Texts out;
  for (const PlacedTask& task : placement.tasks) out.push_back(fmt::format("{}", fmt::join(task.nics, ",")));
  return out;
}

// How many of these sets a task has cpus of.
std::size_t touched(const std::vector<Idset>& sets, const Idset& cpus) {
  return static_cast<std::size_t>(
      std::count_if(sets.begin(), sets.end(), [&](const Idset& each) { return !(each & cpus).empty(); }));
}

std::vector<Idset> sets_of(const std::vector<task::CpuTopology::Numa>& numas) {
  std::vector<Idset> out;
  for (const auto& each : numas) out.push_back(each.cpus);
  return out;
}

PlacementRequest devices_for(std::size_t tasks, std::size_t gpus) {
  PlacementRequest out = request_for(tasks);
  out.gpus = Gpus::closest;
  out.nics = true;
  for (std::size_t i = 0; i < gpus; ++i) out.gpu_ids.push_back(static_cast<Idset::Id>(i));
  return out;
}

}  // namespace

// ---- Cpus --------------------------------------------------------------------

TEST_CASE("a node without groups is divided evenly, in the order of its cores") {
  NodeTopology node = synthetic("package:1 core:8 pu:1");
  CHECK(cpus(node, 1) == Texts{"0-7"});
  CHECK(cpus(node, 3) == Texts{"0-1", "2-4", "5-7"});
  CHECK(cpus(node, 8) == Texts{"0", "1", "2", "3", "4", "5", "6", "7"});
  NodeTopology small = synthetic("package:1 core:2 pu:1");
  CHECK(cpus(small, 5) == Texts{"0", "0", "0", "1", "1"});
}

TEST_CASE("each level gives whole units") {
  NodeTopology node = synthetic("package:2 numa:2 l3:2 core:2 pu:2");
  CHECK(cpus(node, 2, CpuLevel::package) == Texts{"0-15", "16-31"});
  CHECK(cpus(node, 4, CpuLevel::package) == Texts{"0-15", "0-15", "16-31", "16-31"});
  CHECK(cpus(node, 4, CpuLevel::numa) == Texts{"0-7", "8-15", "16-23", "24-31"});
  CHECK(cpus(node, 2, CpuLevel::numa) == Texts{"0-15", "16-31"});
  CHECK(cpus(node, 8, CpuLevel::l3) == Texts{"0-3", "4-7", "8-11", "12-15", "16-19", "20-23", "24-27", "28-31"});
  CHECK(cpus(node, 16).front() == "0-1");
  CHECK(cpus(node, 32, CpuLevel::thread)[31] == "31");
  // with more tasks than cores two tasks share a core, but not a thread
  CHECK(cpus(node, 32)[1] == "0-1");
}

TEST_CASE("threads are dealt core by core") {
  NodeTopology node = synthetic("package:1 core:4 pu:2");
  CHECK(cpus(node, 6, CpuLevel::thread) == Texts{"0", "1", "2", "3", "4-5", "6-7"});
  CHECK(cpus(node, 4, CpuLevel::thread) == cpus(node, 4));
}

TEST_CASE("no task spans two sets where the shares fit into one") {
  NodeTopology node = synthetic("package:2 numa:2 l3:2 core:4 pu:2");
  for (std::size_t tasks : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 12U, 16U, 24U, 32U, 64U}) {
    Placement placement = placed(node, request_for(tasks));
    std::size_t share = std::max<std::size_t>(1, 32 / tasks);
    for (const PlacedTask& task : placement.tasks) {
      INFO(tasks << " tasks: " << task.cpus.str() << ": " << task.cpus_why);
      CHECK(task.cpus.size() >= 2 * share);
      if (share <= 4 && 32 / tasks * tasks == 32) CHECK(touched(node.cpus.l3s, task.cpus) == 1);
      if (share <= 8 && tasks % 4 == 0) CHECK(touched(sets_of(node.cpus.numas), task.cpus) == 1);
      if (tasks % 2 == 0) CHECK(touched(node.cpus.packages, task.cpus) == 1);
    }
  }
  // 8 cores of two packages for 3 tasks: two and two, and the third has a package alone
  CHECK(cpus(synthetic("package:2 core:4 pu:1"), 3) == Texts{"0-1", "2-3", "4-7"});
}

TEST_CASE("what fits into no set spans several, and has its share") {
  NodeTopology node = synthetic("package:2 core:3 pu:1");
  Placement placement = placed(node, request_for(3));
  CHECK(cpus(placement) == Texts{"0-1", "2,5", "3-4"});
  CHECK(placement.tasks[1].cpus_why == "core 2,5 over package 0-1, in numa 0: 2 of the job's 6 cores");
}

TEST_CASE("cpus are left over where a share with them would span sets") {
  Placement placement = placed(synthetic("package:4 core:2 pu:1"), request_for(3));
  CHECK(cpus(placement) == Texts{"0-1", "2-3", "4-5"});
  CHECK(placement.unused.str() == "6-7");
  CHECK(placed(synthetic("package:4 core:2 pu:1"), request_for(4)).unused.empty());
}

TEST_CASE("cores that are missing in the middle: tasks go where the cores are") {
  // two NUMA nodes of 8 cores, of which the first lacks 4
  NodeTopology node = machine("--packages 2 --cores 8 --threads 2 --without 2-5");
  CHECK(node.cpus.cores.size() == 12);
  CHECK(cpus(node, 3) == Texts{"0-1,6-7,16-17,22-23", "8-11,24-27", "12-15,28-31"});
  CHECK(cpus(node, 6, CpuLevel::numa) == Texts{"0-1,6-7,16-17,22-23", "0-1,6-7,16-17,22-23", "8-15,24-31",
                                               "8-15,24-31", "8-15,24-31", "8-15,24-31"});
  // For an R with some of the cores.
  PlacementRequest request = request_for(2, CpuLevel::numa);
  request.cores = {node.cpus.cores[1], node.cpus.cores[4], node.cpus.cores[5]};
  CHECK(cpus(placed(node, request)) == Texts{"1,17", "8-9,24-25"});
}

TEST_CASE("sub-NUMA clusters: the l3 is around the NUMA nodes") {
  NodeTopology node = synthetic("package:2 l3:1 numa:2 core:4 pu:1");
  CHECK(cpus(node, 4, CpuLevel::numa) == Texts{"0-3", "4-7", "8-11", "12-15"});
  CHECK(cpus(node, 2, CpuLevel::l3) == Texts{"0-7", "8-15"});
  CHECK(cpus(node, 4) == Texts{"0-3", "4-7", "8-11", "12-15"});
  CHECK(placed(node, request_for(4)).tasks[1].cpus_why ==
        "core 4-7 in l3 0, numa 1, package 0: 4 of the job's 16 cores");
}

TEST_CASE("the reasons name what a task has, and with how many it shares that") {
  NodeTopology node = synthetic("package:2 numa:1 l3:1 core:4 pu:4");
  CHECK(placed(node, request_for(8)).tasks[0].cpus_why ==
        "core 0, 4 threads in l3 0, numa 0, package 0: 1 of the job's 8 cores");
  CHECK(placed(node, request_for(6, CpuLevel::l3)).tasks[3].cpus_why ==
        "core 4-7, 4 threads each in l3 1, numa 1, package 1: 1 of the job's 2 l3, shared with 2 other tasks");
  CHECK(placed(node, request_for(32, CpuLevel::thread)).tasks[5].cpus_why ==
        "core 1, 1 of its 4 threads in l3 0, numa 0, package 0: 1 of the job's 32 threads");
}

TEST_CASE("a level that the node does not tell of is refused, with those that it has") {
  NodeTopology node = synthetic("package:2 core:2 pu:1");
  PlacementRequest request = request_for(2, CpuLevel::l3);
  request.cores = node.cpus.cores;
  auto refused = plugins::place(node, request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "cpu-affinity: per-task:l3: this node does not tell of any; use one of thread, core, numa, package");
}

TEST_CASE("cpus that something else has decided are kept") {
  NodeTopology node = synthetic("package:2 numa:1 core:4 pu:1");
  PlacementRequest request = request_for(2);
  request.cpus = {kit::set("0-1"), kit::set("3-4")};
  request.cpus_why = "as the map has it";
  request.memory = true;
  Placement placement = placed(node, request);
  CHECK(cpus(placement) == Texts{"0-1", "3-4"});
  CHECK(placement.tasks[1].cpus_why == "core 3-4 over numa 0-1, package 0-1: as the map has it");
  CHECK(placement.tasks[1].memory.str() == "0-1");
}

// ---- Memory ------------------------------------------------------------------

TEST_CASE("memory is that of the task's cpus; a NUMA node without cores is nobody's") {
  NodeTopology node = machine("--packages 2 --numas 2 --cores 4 --far-memory");
  REQUIRE(node.cpus.numas.size() == 5);
  PlacementRequest request = request_for(2);
  request.memory = true;
  Placement placement = placed(node, request);
  CHECK(placement.tasks[0].memory.str() == "0-1");
  CHECK(placement.tasks[1].memory.str() == "2-3");
  CHECK(placement.tasks[1].memory_why == "numa 2-3, where its cpus are");
  CHECK(cpus(node, 4, CpuLevel::numa).back() == "12-15");
}

TEST_CASE("where the cpus have no memory it is that of their package, and that is said") {
  NodeTopology node = machine("--packages 2 --numas 2 --cores 2 --no-memory 1");
  PlacementRequest request = request_for(4);
  request.memory = true;
  Placement placement = placed(node, request);
  CHECK(placement.tasks[1].memory.str() == "0");
  CHECK(placement.tasks[1].memory_why == "numa 0, in the package of its cpus, as numa 1 has no memory");
}

TEST_CASE("of NUMA nodes with the same cpus the first is used") {
  NodeTopology node = synthetic("package:2 [numa(memory=1GB)] [numa(memory=1GB)] core:2 pu:1");
  REQUIRE(node.cpus.numas.size() == 4);
  PlacementRequest request = request_for(2);
  request.memory = true;
  Placement placement = placed(node, request);
  CHECK(placement.tasks[0].memory.size() == 1);
  CHECK(placement.tasks[0].memory != placement.tasks[1].memory);
}

TEST_CASE("a node without any NUMA node has no memory to bind to") {
  NodeTopology node = synthetic("package:1 core:2 pu:1");
  node.cpus.numas.clear();
  PlacementRequest request = request_for(1);
  request.cores = node.cpus.cores;
  request.memory = true;
  auto refused = plugins::place(node, request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "mem-affinity: this node has no NUMA nodes that its kernel tells of; use mem-affinity=off");
}

// ---- Gpus and network cards ----------------------------------------------------

TEST_CASE("8 gpus with a card beside each: each task has the gpu of its cores, and the card behind its switch") {
  NodeTopology node = machine("--packages 2 --numas 2 --cores 8 --threads 2 --gpus 2");
  REQUIRE(node.gpus.size() == 8);
  REQUIRE(node.nics.size() == 8);
  Placement eight = placed(node, devices_for(8, 8));
  CHECK(gpus(eight) == Texts{"0", "1", "2", "3", "4", "5", "6", "7"});
  CHECK(nics(eight) ==
        Texts{"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1", "mlx5_6:1", "mlx5_7:1"});
  CHECK(eight.tasks[3].gpus_why == "gpu 3 (0000:0d:00.0) at numa 1, where its cpus are");
  CHECK(eight.tasks[3].nics_why ==
        "mlx5_3:1 (0000:0e:00.0) at numa 1, where its cpus are, behind a PCI switch with gpu 3");
  Placement four = placed(node, devices_for(4, 8));
  CHECK(gpus(four) == Texts{"0,1", "2,3", "4,5", "6,7"});
  CHECK(nics(four)[1] == "mlx5_2:1,mlx5_3:1");
  Placement sixteen = placed(node, devices_for(16, 8));
  CHECK(gpus(sixteen)[15] == "7");
  CHECK(sixteen.tasks[15].gpus_why ==
        "gpu 7 (0000:1b:00.0) at numa 3, where its cpus are, shared with 1 other task");
}

TEST_CASE("tasks on the second package have the gpus there, whichever ids come first") {
  NodeTopology node = machine("--packages 2 --cores 4 --gpus 2");
  PlacementRequest request = devices_for(2, 4);
  request.cores = {node.cpus.cores.begin() + 4, node.cpus.cores.end()};
  Placement placement = placed(node, request);
  // two of four are there; each task has one of these, and one that is far
  CHECK(gpus(placement) == Texts{"0,2", "1,3"});
  CHECK(placement.tasks[0].gpus_why ==
        "gpu 0 (0000:03:00.0) at numa 0, far from its cpus: the nearer ones are taken, or there are none; gpu 2 "
        "(0000:0a:00.0) at numa 1, where its cpus are");
  request.gpu_ids = {2, 3};
  CHECK(gpus(placed(node, request)) == Texts{"2", "3"});
  // Neighbours, where the tasks have the choice.
  CHECK(gpus(placed(machine("--cores 4 --gpus 4"), devices_for(2, 4))) == Texts{"0,1", "2,3"});
  request.gpus = Gpus::evenly;
  request.gpu_ids = {0, 3};
  CHECK(gpus(placed(node, request)) == Texts{"0", "3"});
  CHECK(nics(placed(node, request)) == Texts{"mlx5_2:1,mlx5_3:1", "mlx5_3:1"});
}

TEST_CASE("gpus that are no multiple of the tasks: one more at most") {
  NodeTopology node = machine("--packages 1 --cores 8 --gpus 5 --network none");
  Placement placement = placed(node, [] {
    PlacementRequest request = devices_for(2, 5);
    request.nics = false;
    return request;
  }());
  CHECK(gpus(placement) == Texts{"0,1,2", "3,4"});
}

TEST_CASE("a gpu that hwloc does not see is refused") {
  NodeTopology node = machine("--cores 4 --gpus 2");
  PlacementRequest request = devices_for(2, 3);
  request.cores = node.cpus.cores;
  auto refused = plugins::place(node, request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "gpu-affinity: closest: the job has gpu 2 of this node, of which hwloc sees 2 (0-1); use "
        "gpu-affinity=per-task");
}

TEST_CASE("cards without a link are none; without RDMA devices network interfaces are the cards") {
  CHECK(nics(placed(machine("--cores 4 --gpus 2 --down mlx5_0"), devices_for(1, 0))) == Texts{"mlx5_1:1"});
  CHECK(nics(placed(machine("--packages 2 --cores 2 --gpus 1 --network eth"), devices_for(2, 0))) ==
        Texts{"eth0", "eth1"});
  NodeTopology none = machine("--cores 2 --gpus 1 --network none");
  PlacementRequest request = devices_for(1, 0);
  request.cores = none.cpus.cores;
  auto refused = plugins::place(none, request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "nic-affinity: closest: hwloc sees no network card on this node that is up; use nic-affinity=off");
}

// ---- As JSON -----------------------------------------------------------------

TEST_CASE("a topology is the same after its way through JSON; what is wrong there is named") {
  NodeTopology node = machine("--packages 2 --numas 2 --cores 2 --threads 2 --gpus 1 --far-memory");
  Json json = plugins::to_json(node);
  auto back = plugins::node_topology_of(JsonAt::root(json, "t"));
  REQUIRE(back);
  CHECK(plugins::to_json(*back) == json);
  json["numas"][1]["cpus"] = "no";
  auto wrong = plugins::node_topology_of(JsonAt::root(json, "t"));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message.starts_with("t.numas[1].cpus: "));
  CHECK_FALSE(plugins::node_topology_of(JsonAt::root(Json::object(), "t")));
}

TEST_CASE("the kernel's files and hwloc give one topology") {
  for (const char* order : {"tpnlc", "pnlct"}) {
    kit::MachineFiles files(kit::Machine::regular({2, 2, 2, 2, 2}, order));
    auto own = task::read_cpu_topology(files.online(), files.system());
    REQUIRE(own);
    REQUIRE(*own);
    kit::Variable root("HWLOC_FSROOT", files.path());
    kit::Variable components("HWLOC_COMPONENTS", "linux,stop");
    kit::Variable xml("HWLOC_XMLFILE", std::nullopt);
    NodeTopology hwloc = kit::node_of(std::nullopt);
    CHECK(plugins::to_json(NodeTopology{**own, {}, {}}) == plugins::to_json(NodeTopology{hwloc.cpus, {}, {}}));
  }
}

TEST_CASE("each task gets as many cores and gpus as it has asked for, the nearest ones, where there are enough") {
  NodeTopology node = synthetic("package:2 l3:1 core:6 pu:2");
  PlacementRequest request = request_for(2);
  request.cpus_each = 4;
  Placement placement = placed(node, request);
  CHECK(cpus(placement) == Texts{"0-7", "12-19"});  // no task has cores of both packages
  CHECK(placement.used == std::vector<std::size_t>{0, 1, 2, 3, 6, 7, 8, 9});
  CHECK(placement.unused.empty());
  CHECK(placement.tasks[0].cpus_why.ends_with(": 4 cores, as asked for"));
  request.tasks = 1;
  request.cpus_each = 1;
  CHECK(cpus(placed(node, request)) == Texts{"0-1"});
  request.cpus_each = 13;  // more than there are: each gets all
  CHECK(cpus(placed(node, request)) == Texts{"0-23"});
}

TEST_CASE("tasks that ask for cores and gpus have cores where the job's gpus are") {
  NodeTopology node = machine("--packages 2 --cores 4 --gpus 2");
  auto with = [&](std::size_t tasks, std::size_t cores, std::vector<value::Idset::Id> gpu_ids) {
    PlacementRequest request = devices_for(tasks, 4);
    request.cpus_each = cores;
    request.gpus_each = 1;
    request.gpu_ids = std::move(gpu_ids);
    return placed(node, request);
  };
  Placement spread = with(2, 1, {0, 1, 2, 3});
  CHECK(cpus(spread) == Texts{"0", "4"});
  CHECK(gpus(spread) == Texts{"0", "2"});
  // The gpus of the first package are not the job's.
  Placement one = with(1, 2, {2, 3});
  CHECK(cpus(one) == Texts{"4-5"});
  CHECK(gpus(one) == Texts{"2"});
  CHECK(one.tasks[0].gpus_why == "gpu 2 (0000:0a:00.0) at numa 1, where its cpus are");
  Placement two = with(2, 2, {2, 3});
  CHECK(cpus(two) == Texts{"4-5", "6-7"});
  CHECK(gpus(two) == Texts{"2", "3"});
  CHECK(two.used == std::vector<std::size_t>{4, 5, 6, 7});
  // The first package has room for one task.
  Placement three = with(3, 1, {1, 2, 3});
  CHECK(cpus(three) == Texts{"0", "4", "6"});
  CHECK(gpus(three) == Texts{"1", "2", "3"});
  // There are too few cores near them: cores first, as they are shared out without gpus.
  CHECK(cpus(with(2, 3, {2, 3})) == Texts{"0-2", "4-6"});
}

TEST_CASE("gpus that are to be near if the node tells where they are: near the cores, and cores near them") {
  NodeTopology node = machine("--packages 2 --cores 4 --gpus 2");
  PlacementRequest request = devices_for(2, 4);
  request.nics = false;
  request.gpus = Gpus::prefer_closest;
  request.gpus_each = 1;
  // Cores are free: the job's gpus are on the second package.
  request.cpus_each = 1;
  request.gpu_ids = {2, 3};
  Placement placement = placed(node, request);
  CHECK(cpus(placement) == Texts{"4", "6"});
  CHECK(gpus(placement) == Texts{"2", "3"});
  // Gpus are free: the job's cores are there.
  request.gpu_ids = {0, 1, 2, 3};
  request.cores.assign(node.cpus.cores.begin() + 4, node.cpus.cores.end());
  placement = placed(node, request);
  CHECK(cpus(placement) == Texts{"4", "6"});
  CHECK(gpus(placement) == Texts{"2", "3"});
  CHECK(placement.tasks[0].gpus_why == "gpu 2 (0000:0a:00.0) at numa 1, where its cpus are");
  // This also holds if another plugin has decided the cores.
  request.cpus = {value::Idset::range(4, 7), value::Idset::range(0, 3)};
  CHECK(gpus(placed(node, request)) == Texts{"2", "0"});
}

TEST_CASE(
    "gpus that are to be near are taken by number where the node does not tell where they all are, or none is "
    "nearer") {
  NodeTopology node = machine("--packages 2 --cores 4 --gpus 2");
  PlacementRequest request = devices_for(2, 4);
  request.nics = false;
  request.gpus = Gpus::prefer_closest;
  request.gpus_each = 1;
  request.cpus = {node.all_cpus(), node.all_cpus()};
  Placement placement = placed(node, request);
  CHECK(gpus(placement) == Texts{"0", "2"});
  CHECK(placement.tasks[1].gpus_why == "gpu 2 by number: all are equally near");
  request.cpus.clear();
  request.cpus_each = 2;
  request.gpu_ids = {3, 4};
  placement = placed(node, request);
  CHECK(cpus(placement) == Texts{"0-1", "4-5"});
  CHECK(gpus(placement) == Texts{"3", "4"});
  CHECK(placement.tasks[0].gpus_why == "gpu 3 by number: the node does not tell where they all are");
  node.gpus.clear();
  request.gpu_ids = {2, 3};
  CHECK(cpus(placed(node, request)) == Texts{"0-1", "4-5"});
  CHECK(gpus(placed(node, request)) == Texts{"2", "3"});
}
