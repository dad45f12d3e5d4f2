// SPDX-License-Identifier: Apache-2.0
#include "fake_machine.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace nacre::kit {
namespace {

using value::Idset;

// The kernel's other way to write a set: words of 32 bits, the highest first.
std::string mask(const Idset& cpus) {
  std::string text;
  for (Idset::Id word = cpus.last().value_or(0) / 32 + 1; word-- > 0;) {
    std::uint32_t bits = 0;
    for (Idset::Id bit = 0; bit < 32; ++bit) bits |= cpus.contains(word * 32 + bit) ? 1U << bit : 0U;
    text += fmt::format("{}{:08x}", text.empty() ? "" : ",", bits);
  }
  return text;
}

void put(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  if (!out) {
    std::filesystem::create_directories(file.parent_path());
    out.open(file);
  }
  out << text << '\n';
}

void put_set(const std::filesystem::path& file, const Idset& cpus) {
  put(file, mask(cpus));
  put(file.string() + "_list", cpus.str());
}

struct Found {
  const Idset* set;
  std::size_t number;
};

std::optional<Found> find(const Machine::Sets& sets, Idset::Id cpu) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].contains(cpu)) return Found{&sets[i], i};
  }
  return std::nullopt;
}

void put_cpu(const std::filesystem::path& directory, const Machine& machine, Idset::Id cpu) {
  auto topology = directory / "topology";
  auto core = find(machine.cores, cpu);
  put(topology / "core_id", fmt::format("{}", core->number));
  put_set(topology / (machine.old_names ? "thread_siblings" : "core_cpus"), *core->set);
  if (auto package = find(machine.packages, cpu)) {
    put(topology / "physical_package_id", fmt::format("{}", package->number));
    put_set(topology / (machine.old_names ? "core_siblings" : "package_cpus"), *package->set);
  }
  if (auto die = find(machine.dies, cpu)) {
    put(topology / "die_id", fmt::format("{}", die->number));
    put_set(topology / "die_cpus", *die->set);
  }
  if (auto cluster = find(machine.clusters, cpu)) {
    put(topology / "cluster_id", fmt::format("{}", cluster->number));
    put_set(topology / "cluster_cpus", *cluster->set);
  }
  int index = 0;
  for (const auto& [level, sets] : {std::pair(2, &machine.l2), std::pair(3, &machine.l3)}) {
    auto cache = find(*sets, cpu);
    if (!cache) continue;
    auto files = directory / "cache" / fmt::format("index{}", index++);
    put(files / "level", fmt::format("{}", level));
    put(files / "type", "Unified");
    put(files / "size", "1024K");
    put(files / "id", fmt::format("{}", cache->number));
    put(files / "shared_cpu_map", mask(*cache->set));
    put(files / "shared_cpu_list", cache->set->str());
  }
}

void put_nodes(const std::filesystem::path& directory, const Machine& machine) {
  if (machine.nodes.empty()) return;
  put(directory / "online", Idset::range(0, static_cast<Idset::Id>(machine.nodes.size()) - 1).str());
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    auto files = directory / fmt::format("node{}", i);
    put(files / "cpumap", mask(machine.nodes[i]));
    put(files / "cpulist", machine.nodes[i].str());
    put(files / "meminfo", fmt::format("Node {} MemTotal: 1048576 kB", i));
    std::string row;
    if (!machine.distances.empty()) {
      for (int each : machine.distances[i]) row += fmt::format("{}{}", row.empty() ? "" : " ", each);
      put(files / "distance", row);
    }
  }
}

}  // namespace

Machine Machine::regular(const std::vector<unsigned>& counts, const std::string& order) {
  static const std::string kNames = "pnlct";
  std::map<std::vector<unsigned>, std::vector<Idset::Id>> cores;
  std::map<std::vector<unsigned>, std::vector<Idset::Id>> groups[3];  // by the first one, two, three of "pnl"
  unsigned total = 1;
  for (unsigned count : counts) total *= count;
  for (unsigned cpu = 0; cpu < total; ++cpu) {
    std::vector<unsigned> place(kNames.size());
    unsigned rest = cpu;
    for (auto name = order.rbegin(); name != order.rend(); ++name) {
      std::size_t at = kNames.find(*name);
      place[at] = rest % counts[at];
      rest /= counts[at];
    }
    for (std::size_t depth = 1; depth <= 3; ++depth) {
      groups[depth - 1][{place.begin(), place.begin() + static_cast<std::ptrdiff_t>(depth)}].push_back(cpu);
    }
    cores[{place.begin(), place.begin() + 4}].push_back(cpu);
  }
  auto sets = [](const auto& map) {
    Sets out;
    for (const auto& [place, cpus] : map) out.push_back(Idset::of(cpus));
    return out;
  };
  Machine machine;
  machine.cores = sets(cores);
  machine.packages = sets(groups[0]);
  machine.nodes = sets(groups[1]);
  machine.l3 = sets(groups[2]);
  for (unsigned i = 0; i < machine.nodes.size(); ++i) {
    auto& row = machine.distances.emplace_back();
    for (unsigned j = 0; j < machine.nodes.size(); ++j)
      row.push_back(i == j ? 10 : i / counts[1] == j / counts[1] ? 12 : 32);
  }
  return machine;
}

Machine Machine::without(const Idset& cpus) const {
  Machine machine = *this;
  for (Sets* sets :
       {&machine.cores, &machine.packages, &machine.dies, &machine.clusters, &machine.l2, &machine.l3}) {
    for (Idset& set : *sets) set = set - cpus;
    std::erase_if(*sets, [](const Idset& set) { return set.empty(); });
  }
  for (Idset& node : machine.nodes) node = node - cpus;
  return machine;
}

MachineFiles::MachineFiles(const Machine& machine) {
  for (const Idset& core : machine.cores) online_ = online_ | core;
  std::filesystem::path cpus = system() + "/cpu";
  put(cpus / "online", online_.str());
  put(cpus / "possible", online_.str());
  bool threads =
      std::any_of(machine.cores.begin(), machine.cores.end(), [](const Idset& core) { return core.size() > 1; });
  put(cpus / "smt" / "active", threads ? "1" : "0");
  for (Idset::Id cpu : online_.ids()) put_cpu(cpus / fmt::format("cpu{}", cpu), machine, cpu);
  put_nodes(system() + "/node", machine);
}

std::vector<std::string> texts(const Machine::Sets& sets) {
  std::vector<std::string> out;
  for (const Idset& set : sets) out.push_back(set.str());
  return out;
}

value::Idset set(std::string_view text) {
  auto parsed = value::Idset::parse(text);
  REQUIRE(parsed);
  return *parsed;
}

}  // namespace nacre::kit
