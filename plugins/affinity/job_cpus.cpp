// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/job_cpus.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

constexpr const char* kTopology = "FLUX_HWLOC_XMLFILE";

Error no_such_core(Idset::Id id, std::size_t count) {
  const std::string has = count == 0   ? "no cores"
                          : count == 1 ? "1 core (0)"
                                       : fmt::format("{} cores (0-{})", count, count - 1);
  return invalid(fmt::format("R gives core {} of this node, which has {}", id, has));
}

Result<std::vector<Idset>> ask_hwloc(plugin::Host& host) {
  plugin::Call call("hwloc.cores");
  if (TRY(host.stack().call(call)) == 0) {
    return Error{ENOENT,
                 "the order of this node's cores is known to hwloc only, and no plugin answers to hwloc.cores"};
  }
  std::vector<Idset> cores;
  for (const JsonAt& each : TRY(TRY(JsonAt::root(call.out, "hwloc.cores").at("cores")).elements())) {
    cores.push_back(TRY(in(each.path(), Idset::parse(TRY(each.string())))));
  }
  return cores;
}

// Whether a file, or a made-up machine, gives the order of the cores, instead of the kernel's files.
bool is_given(plugin::Host& host) {
  if (host.options().find("pretend") != nullptr) return true;
  auto path = host.environment().get(kTopology);
  return path && !path->empty();
}

// The ids are 0, 1, ... without gaps: if there are as many as cores, they are all of the cores.
bool from_zero(const Idset& ids) { return ids.ranges().size() == 1 && ids.first() == 0U; }

}  // namespace

Result<std::vector<Idset>> pick_cores(const Idset& ids, const std::vector<Idset>& cores, const CpuRights& rights) {
  if (rights.allowed != rights.online) {
    std::vector<Idset> own = task::cores_within(cores, rights.allowed);
    if (own.size() == ids.size()) return own;
  }
  std::vector<Idset> known = task::cores_within(cores, rights.cgroup);
  std::vector<Idset> picked;
  for (Idset::Id id : ids.ids()) {
    if (id >= known.size()) return no_such_core(id, known.size());
    if (Idset usable = known[id] & rights.allowed; !usable.empty()) picked.push_back(std::move(usable));
  }
  if (!picked.empty() || ids.empty()) return picked;
  return invalid(fmt::format(
      "the job has core{} {}, of which the shell may use nothing: it is confined to cpu{} {}",
      ids.size() == 1 ? "" : "s", ids.str(), rights.allowed.size() == 1 ? "" : "s", rights.allowed.str()));
}

std::optional<TopologyFile> topology_file(plugin::Host& host) {
  for (const char* variable : {kTopology, "HWLOC_XMLFILE"}) {
    auto path = host.environment().get(variable);
    if (path && !path->empty()) return TopologyFile{variable, std::string(*path)};
  }
  return std::nullopt;
}

Result<CpuRights> node_rights(plugin::Host& host) {
  if (!TRY(pretended_machine(host.options()))) return read_cpu_rights();
  return *TRY(rights_in_file(host));
}

Result<std::optional<CpuRights>> rights_in_file(plugin::Host& host) {
  if (!is_given(host)) return std::optional<CpuRights>();
  Idset all;
  for (const Idset& core : TRY(ask_hwloc(host))) all = all | core;
  return std::optional(CpuRights{all, all, all});
}

Result<std::vector<Idset>> job_cores(plugin::Host& host, const CpuRights& rights) {
  std::optional<std::vector<Idset>> cores;
  if (!is_given(host)) cores = TRY(read_cores(rights.online));
  if (!cores) cores = TRY(ask_hwloc(host));
  const job::NodeResources& node = host.job().node();
  if (node.more_cores.empty()) return pick_cores(node.cores, *cores, rights);
  // The ids are known among all cores that the node offers.
  const Idset all = node.all_cores();
  std::vector<Idset> picked = TRY(pick_cores(all, *cores, rights));
  if (picked.size() != all.size()) return pick_cores(node.cores, *cores, rights);
  std::vector<Idset> out;
  for (std::size_t i = 0; i < picked.size(); ++i) {
    if (node.cores.contains(*all.nth(i))) out.push_back(std::move(picked[i]));
  }
  return out;
}

Result<NodeTopology> read_node(plugin::Host& host, const CpuRights& rights, bool with_devices) {
  std::optional<task::CpuTopology> cpus;
  if (!is_given(host)) cpus = TRY(task::read_cpu_topology(rights.online));
  if (cpus && !with_devices) return NodeTopology{*std::move(cpus), {}, {}};
  plugin::Call call("hwloc.topology");
  if (TRY(host.stack().call(call)) == 0)
    return Error{ENOENT, "this node's topology is known to hwloc only, and no plugin answers to hwloc.topology"};
  NodeTopology out = TRY(node_topology_of(JsonAt::root(call.out, "hwloc.topology")));
  if (cpus) out.cpus = *std::move(cpus);
  return out;
}

Result<Idset> job_cpus(plugin::Host& host, const CpuRights& rights) {
  const Idset& ids = host.job().node().cores;
  bool confined = rights.allowed != rights.online;
  if (!is_given(host) && ids.size() == rights.allowed.size() && (confined || from_zero(ids)) &&
      one_cpu_a_core(rights.online)) {
    return rights.allowed;
  }
  Idset cpus;
  for (const Idset& core : TRY(job_cores(host, rights))) cpus = cpus | core;
  return cpus;
}

// ---- pretended --------------------------------------------------------------------------

Result<std::optional<job::MachineShape>> pretended_machine(const job::Options& options) {
  auto option = options.at("pretend");
  if (!option) return std::optional<job::MachineShape>();
  return std::optional(TRY(in("pretend", job::MachineShape::parse(TRY(option->string())))));
}

}  // namespace nacre::plugins
