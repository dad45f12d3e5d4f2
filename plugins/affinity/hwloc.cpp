// SPDX-License-Identifier: Apache-2.0
//
// hwloc: gives the tasks the node's topology, discovered once, as each task would otherwise discover it again.
//
//   hwloc.xmlfile   a switch: the topology, with PCI devices, as a file in FLUX_JOB_TMPDIR. For the tasks
//                     HWLOC_XMLFILE names it, HWLOC_THISSYSTEM=1 marks it as that of their machine, and
//                     HWLOC_COMPONENTS, which would take precedence, is unset.
//   hwloc.restrict  a switch, with hwloc.xmlfile: only what belongs to the job's cores. Logical indexes then
//                     count only these.
//
// FLUX_HWLOC_XMLFILE in the job's environment, else HWLOC_XMLFILE there, names a topology of the node that is
// there already: nothing is discovered then. By the former cores are bound too, where sysfs would be enough
// otherwise.
//
// A made-up machine (-o pretend) has the topology that its shape describes; HWLOC_THISSYSTEM is 0 then.
//
// To get the logical order of all cores, call the topic `hwloc.cores`, which returns {"cores": [idset of cpus,
// ...]}. The topic `hwloc.topology` returns a NodeTopology, and `hwloc.xml` {"xml": the whole
// topology}. Nothing is discovered before one of these.
#include <fmt/format.h>

#include "base/json.hpp"
#include "plugins/affinity/hwloc_topology.hpp"
#include "plugins/affinity/job_cpus.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

class Hwloc final : public plugin::Plugin {
 public:
  explicit Hwloc(plugin::Host& host) : Plugin("hwloc"), host_(host) {
    on("shell.init", [this] { return initialize(); });
    on("hwloc.cores", [this](plugin::Call& call) -> Result<void> {
      if (cores_.empty()) cores_ = TRY(TRY(load(HwlocTopology::Devices::none)).cores());
      Json cores = Json::array();
      for (const Idset& cpus : cores_) cores.push_back(cpus.str());
      call.out["cores"] = std::move(cores);
      return {};
    });
    on("hwloc.topology", [this](plugin::Call& call) -> Result<void> {
      NodeTopology node = TRY(TRY(load(HwlocTopology::Devices::important)).node());
      if (auto shape = TRY(pretended_machine(host_.options()))) add_gpus(*shape, node);
      call.out = to_json(node);
      return {};
    });
    on("hwloc.xml", [this](plugin::Call& call) -> Result<void> {
      call.out["xml"] = TRY(TRY(load(HwlocTopology::Devices::important)).xml());
      return {};
    });
  }

 private:
  Result<void> initialize() {
    bool wanted = TRY(host_.options().flag("hwloc.xmlfile"));
    bool restricted = TRY(host_.options().flag("hwloc.restrict"));
    if (restricted && !wanted) {
      return invalid("hwloc.restrict: there is no topology file to restrict; add -o hwloc.xmlfile");
    }
    if (!wanted) return {};
    auto directory = host_.environment().get("FLUX_JOB_TMPDIR");
    if (!directory) return invalid("hwloc.xmlfile: no FLUX_JOB_TMPDIR to put the file into");
    std::string path = fmt::format("{}/hwloc.xml", *directory);
    CHECK_OK(in("hwloc.xmlfile", write(path, restricted)));
    job::Environment& environment = host_.environment();
    environment.set("HWLOC_XMLFILE", path);
    environment.set("HWLOC_THISSYSTEM", TRY(pretended_machine(host_.options())) ? "0" : "1");
    environment.unset("HWLOC_COMPONENTS");
    return {};
  }

  // A topology that is made up for hwloc cannot have any. They are spread over the packages.
  static void add_gpus(const job::MachineShape& shape, NodeTopology& node) {
    for (std::uint32_t i = 0; i < shape.gpus; ++i) {
      std::uint64_t package = std::uint64_t{i} * shape.packages / shape.gpus;
      node.gpus.push_back({fmt::format("pretended{}", i),
                           fmt::format("0000:{:02x}:00.0", i + 1),
                           node.cpus.packages.at(package),
                           {package}});
    }
  }

  Result<HwlocTopology> load(HwlocTopology::Devices devices) {
    if (auto shape = TRY(pretended_machine(host_.options()))) return HwlocTopology::synthetic(shape->synthetic());
    auto file = topology_file(host_);
    if (!file) return HwlocTopology::load(devices);
    return in(file->variable, HwlocTopology::load(devices, file->path));
  }

  Result<void> write(const std::string& path, bool restricted) {
    HwlocTopology topology = TRY(load(HwlocTopology::Devices::important));
    cores_ = TRY(topology.cores());
    if (restricted) CHECK_OK(restrict_to_job(topology));
    return topology.write_xml(path);
  }

  Result<void> restrict_to_job(HwlocTopology& topology) {
    CpuRights rights = TRY(node_rights(host_));
    Result<Idset> cpus = job_cpus(host_, rights);
    if (cpus) return topology.restrict_to(*cpus);
    return Error{cpus.error().code, cpus.error().message + "; correct R, or leave hwloc.restrict out"};
  }

  plugin::Host& host_;
  std::vector<Idset> cores_;  // set when they have been discovered
};

}  // namespace

PluginPtr make_hwloc(plugin::Host& host) { return std::make_unique<Hwloc>(host); }

}  // namespace nacre::plugins
