// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/node_map.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace nacre::plugins {
namespace {

using value::Idset;

constexpr std::string_view kSetNames[] = {"core", "l3", "numa", "package"};

std::string_view name_of(SetKind kind) { return kSetNames[static_cast<std::size_t>(kind)]; }

void put(std::vector<std::size_t>& by_cpu, const Idset& cpus, std::size_t index) {
  if (cpus.empty()) return;
  if (*cpus.last() >= by_cpu.size()) by_cpu.resize(*cpus.last() + std::size_t{1}, NodeMap::kNone);
  for (const Idset::Range& range : cpus.ranges()) {
    for (std::size_t cpu = range.first; cpu <= range.last; ++cpu) {
      // of NUMA nodes with the same cpus, the first
      if (by_cpu[cpu] == NodeMap::kNone) by_cpu[cpu] = index;
    }
  }
}

std::vector<std::size_t> map_of(const std::vector<Idset>& sets) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < sets.size(); ++i) put(out, sets[i], i);
  return out;
}

}  // namespace

NodeMap::NodeMap(const NodeTopology& topology) : topology_(topology), all_(topology.all_cpus()) {
  const task::CpuTopology& cpus = topology.cpus;
  // A node that is near to many cpus, as one of other memory, comes after those of fewer.
  std::vector<std::size_t> order(cpus.numas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return cpus.numas[a].cpus.size() < cpus.numas[b].cpus.size();
  });
  std::vector<std::size_t> numas;
  for (std::size_t i : order) put(numas, cpus.numas[i].cpus, i);
  by_cpu_ = {map_of(cpus.cores), map_of(cpus.l3s), std::move(numas), map_of(cpus.packages)};
  has_parts_ = numbers(SetKind::numa, all_).size() > 1 || cpus.packages.size() > 1;
}

std::size_t NodeMap::index(SetKind kind, Idset::Id cpu) const {
  const auto& by_cpu = by_cpu_[static_cast<std::size_t>(kind)];
  return cpu < by_cpu.size() ? by_cpu[cpu] : kNone;
}

Idset NodeMap::numbers(SetKind kind, const Idset& cpus) const {
  std::vector<Idset::Id> out;
  std::size_t last = kNone;
  for (const Idset::Range& range : cpus.ranges()) {
    for (Idset::Id cpu = range.first; cpu <= range.last; ++cpu) {
      std::size_t at = index(kind, cpu);
      if (at == kNone || at == last) continue;
      last = at;
      out.push_back(kind == SetKind::numa ? topology_.cpus.numas[at].id : static_cast<Idset::Id>(at));
    }
  }
  return Idset::of(out);
}

std::string NodeMap::where(const Idset& cpus) const {
  std::vector<std::string> in;
  std::vector<std::string> over;
  for (SetKind kind : {SetKind::l3, SetKind::numa, SetKind::package}) {
    Idset found = numbers(kind, cpus);
    if (found.empty()) continue;
    (found.size() == 1 ? in : over).push_back(fmt::format("{} {}", name_of(kind), found.str()));
  }
  std::string out;
  if (!over.empty()) out = fmt::format("over {}", fmt::join(over, ", "));
  if (!in.empty()) out += fmt::format("{}in {}", out.empty() ? "" : ", ", fmt::join(in, ", "));
  return out;
}

Nearness NodeMap::nearness(const Idset& cpus, const Device& device) const {
  if (!has_parts_) return Nearness::local;
  if (is_unknown(device)) return Nearness::unknown;
  if ((cpus - device.cpus).empty()) return Nearness::local;
  if (!(cpus & device.cpus).empty()) return Nearness::partly;
  bool shares = !(numbers(SetKind::package, cpus) & numbers(SetKind::package, device.cpus)).empty();
  return shares ? Nearness::same_package : Nearness::elsewhere;
}

std::string NodeMap::place_of(const Device& device) const {
  if (has_parts_ && is_unknown(device)) return "anywhere";
  for (SetKind kind : {SetKind::numa, SetKind::package}) {
    Idset found = numbers(kind, device.cpus);
    if (found.size() == 1) return fmt::format("at {} {}", name_of(kind), found.str());
  }
  return fmt::format("at cpus {}", device.cpus.str());
}

}  // namespace nacre::plugins
