// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/placement.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "plugins/affinity/cpu_division.hpp"
#include "plugins/affinity/device_choice.hpp"
#include "plugins/affinity/node_map.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

std::string_view level_name(CpuLevel level) { return kCpuLevels[static_cast<std::size_t>(level)]; }

std::string counted(std::size_t count, std::string_view what) {
  // "2 l3": a name, which has no other form
  return fmt::format("{} {}{}", count, what, count == 1 || what == "l3" ? "" : "s");
}

// The kind of a level's units; a thread has none.
SetKind kind_of(CpuLevel level) {
  switch (level) {
    case CpuLevel::l3: return SetKind::l3;
    case CpuLevel::numa: return SetKind::numa;
    case CpuLevel::package: return SetKind::package;
    case CpuLevel::thread:
    case CpuLevel::core: break;
  }
  return SetKind::core;
}

// The job's cpus in units of a level.
class LevelUnits {
 public:
  LevelUnits(const NodeMap& map, const std::vector<Idset>& cores, CpuLevel level) {
    SetKind kind = kind_of(level);
    std::size_t last = NodeMap::kNone;
    for (const Idset& core : cores) {
      if (level == CpuLevel::thread) {
        for (Idset::Id cpu : core.ids()) add(Idset::range(cpu, cpu));
        continue;
      }
      std::size_t number = level == CpuLevel::core ? NodeMap::kNone : map.index(kind, *core.first());
      if (number != NodeMap::kNone && number == last) {
        for (Idset::Id cpu : core.ids()) ids_.back().push_back(cpu);
        ++units.weights.back();
      } else {
        add(core);
      }
      last = number;
    }
    for (SetKind each : {SetKind::package, SetKind::numa, SetKind::l3, SetKind::core}) add_groups(map, each);
  }

  // Of several units.
  [[nodiscard]] Idset cpus(const std::vector<std::size_t>& share) const {
    std::vector<Idset::Id> out;
    for (std::size_t unit : share) out.insert(out.end(), ids_[unit].begin(), ids_[unit].end());
    return Idset::of(out);
  }

  Units units;

 private:
  void add(const Idset& cpus) {
    ids_.push_back(cpus.ids());
    units.weights.push_back(1);
  }

  void add_groups(const NodeMap& map, SetKind kind) {
    if (!map.has(kind)) return;
    std::vector<std::size_t>& numbers = units.groups.emplace_back();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::size_t number = map.index(kind, ids_[i].front());
      // a unit of its own, where it is in no set
      numbers.push_back(number == NodeMap::kNone ? NodeMap::kNone - 1 - i : number);
    }
  }

  std::vector<std::vector<Idset::Id>> ids_;
};

using Shares = std::vector<std::vector<std::size_t>>;

// The job's gpus by the cpus that are nearest to them, and the units that are all among these cpus.
class GpuLocalities {
 public:
  GpuLocalities(const NodeTopology& topology, const PlacementRequest& request, const LevelUnits& level)
      : request_(request), units_(level.units) {
    for (Idset::Id id : request.gpu_ids) {
      if (id >= topology.gpus.size()) continue;
      const Idset& cpus = topology.gpus[id].cpus;
      auto found = std::find_if(all_.begin(), all_.end(), [&](const Locality& each) { return each.cpus == cpus; });
      if (found == all_.end()) found = all_.insert(all_.end(), {cpus, {}, 0});
      ++found->gpus;
    }
    locality_of_.resize(units_.weights.size(), NodeMap::kNone);
    for (std::size_t unit = 0; unit < locality_of_.size(); ++unit) add_unit(unit, level.cpus({unit}));
  }

  // Whether each task's units are near as many gpus as it has asked for, that no other task needs.
  [[nodiscard]] bool suit(const Shares& shares) const {
    std::vector<std::size_t> tasks(all_.size());
    for (const auto& share : shares) {
      std::size_t locality = locality_of_[share.front()];
      bool is_in = locality != NodeMap::kNone && std::all_of(share.begin(), share.end(), [&](std::size_t unit) {
                     return locality_of_[unit] == locality;
                   });
      if (!is_in || ++tasks[locality] * request_.gpus_each > all_[locality].gpus) return false;
    }
    return true;
  }

  // Shares that do; none: there are none, or the node does not tell where its gpus are.
  [[nodiscard]] std::optional<Shares> divide_near() const {
    std::vector<std::size_t> counts(all_.size());
    if (overlap_) return std::nullopt;
    for (std::size_t task = 0; task < request_.tasks; ++task) {
      std::size_t best = all_.size();
      for (std::size_t i = 0; i < all_.size(); ++i) {
        if (counts[i] == room(i)) continue;
        if (best == all_.size() || room(i) * (counts[best] + 1) > room(best) * (counts[i] + 1)) best = i;
      }
      if (best == all_.size()) return std::nullopt;
      ++counts[best];
    }
    Shares out;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (counts[i] > 0) divide_units(all_[i].units, counts[i], out);
    }
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
    return out;
  }

 private:
  struct Locality {
    Idset cpus;
    std::vector<std::size_t> units;
    std::size_t gpus = 0;
  };

  void add_unit(std::size_t unit, const Idset& cpus) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!(cpus - all_[i].cpus).empty()) continue;
      overlap_ = overlap_ || locality_of_[unit] != NodeMap::kNone;
      locality_of_[unit] = i;
      all_[i].units.push_back(unit);
    }
  }

  // For tasks.
  [[nodiscard]] std::size_t room(std::size_t locality) const {
    return std::min(all_[locality].gpus / request_.gpus_each, all_[locality].units.size() / request_.cpus_each);
  }

  void divide_units(const std::vector<std::size_t>& among, std::size_t tasks, Shares& out) const {
    Units part;
    part.groups.resize(units_.groups.size());
    for (std::size_t unit : among) {
      part.weights.push_back(units_.weights[unit]);
      for (std::size_t i = 0; i < part.groups.size(); ++i) part.groups[i].push_back(units_.groups[i][unit]);
    }
    for (auto& share : divide(part, tasks)) {
      for (std::size_t& unit : share) unit = among[unit];
      out.push_back(std::move(share));
    }
  }

  const PlacementRequest& request_;
  const Units& units_;
  std::vector<Locality> all_;
  std::vector<std::size_t> locality_of_;  // by unit; kNone: it is near no gpu
  bool overlap_ = false;                  // a unit is near gpus of several
};

class Placer {
 public:
  Placer(const NodeTopology& topology, const PlacementRequest& request)
      : topology_(topology), request_(request), map_(topology) {
    out_.tasks.resize(request.tasks);
  }

  Result<Placement> place() {
    if (request_.tasks == 0) return std::move(out_);
    if (request_.cpus.empty()) {
      CHECK_OK(divide_cpus());
    } else {
      for (std::size_t i = 0; i < request_.tasks; ++i) {
        out_.tasks[i].cpus = request_.cpus[i];
        out_.tasks[i].cpus_why = fmt::format("{}: {}", place_text(request_.cpus[i]), request_.cpus_why);
      }
    }
    if (request_.memory) CHECK_OK(choose_memory());
    if (request_.gpus != PlacementRequest::Gpus::none) CHECK_OK(choose_gpus(topology_, map_, request_, out_.tasks));
    if (request_.nics) CHECK_OK(choose_nics(topology_, map_, out_.tasks));
    return std::move(out_);
  }

 private:
  Result<void> check_level() const {
    if (map_.has(kind_of(request_.level))) return {};
    std::vector<std::string_view> there = {"thread", "core"};
    for (CpuLevel level : {CpuLevel::l3, CpuLevel::numa, CpuLevel::package}) {
      if (map_.has(kind_of(level))) there.push_back(level_name(level));
    }
    return invalid(fmt::format("cpu-affinity: per-task:{}: this node does not tell of any; use one of {}",
                               level_name(request_.level), fmt::join(there, ", ")));
  }

  Result<void> divide_cpus() {
    CHECK_OK(check_level());
    LevelUnits level(map_, request_.cores, request_.level);
    if (level.units.weights.empty()) return invalid("cpu-affinity: per-task: the job has no cores on this node");
    const bool is_exact =
        request_.cpus_each > 0 && request_.cpus_each * request_.tasks <= level.units.weights.size();
    const Shares shares = is_exact ? exact_shares(level) : divide(level.units, request_.tasks);
    std::vector<std::size_t> users(level.units.weights.size());
    for (const auto& share : shares) {
      for (std::size_t unit : share) ++users[unit];
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {
      PlacedTask& task = out_.tasks[i];
      bool is_again = i > 0 && shares[i] == shares[i - 1];
      task.cpus = is_again ? out_.tasks[i - 1].cpus : level.cpus(shares[i]);
      task.cpus_why = is_again   ? out_.tasks[i - 1].cpus_why
                      : is_exact ? fmt::format("{}: {}, as asked for", place_text(task.cpus),
                                               counted(request_.cpus_each, level_name(request_.level)))
                                 : share_text(task.cpus, shares[i].size(), users, users[shares[i].front()]);
    }
    std::vector<std::size_t> left;
    for (std::size_t unit = 0; unit < users.size(); ++unit) (users[unit] == 0 ? left : out_.used).push_back(unit);
    if (!is_exact) {
      out_.unused = level.cpus(left);
      out_.used.clear();
    }
    return {};
  }

  // As many units as asked for; where some tasks would be far from their gpus, in other places if there are any.
  [[nodiscard]] Shares exact_shares(const LevelUnits& level) const {
    Shares shares = divide(level.units, request_.tasks);
    auto cut = [&] {
      for (auto& share : shares) share.resize(request_.cpus_each);
    };
    cut();
    if (request_.gpus != PlacementRequest::Gpus::closest || request_.gpus_each == 0) return shares;
    const GpuLocalities gpus(topology_, request_, level);
    if (gpus.suit(shares)) return shares;
    if (auto near = gpus.divide_near()) {
      shares = *std::move(near);
      cut();
    }
    return shares;
  }

  // "core 0-3, 2 threads each, in numa 0, package 0".
  [[nodiscard]] std::string place_text(const Idset& cpus) const {
    Idset cores = map_.numbers(SetKind::core, cpus);
    std::size_t threads = 0;
    for (Idset::Id core : cores.ids()) threads += topology_.cpus.cores[core].size();
    if (cores.empty()) return fmt::format("cpus {}, of which the node's topology has none", cpus.str());
    std::string out = fmt::format("core {}", cores.str());
    if (cpus.size() < threads) {
      out += fmt::format(", {} of its {} threads", cpus.size(), threads);
    } else if (threads > cores.size()) {
      out += threads % cores.size() == 0
                 ? fmt::format(", {} threads{}", threads / cores.size(), cores.size() == 1 ? "" : " each")
                 : fmt::format(", {} threads", threads);
    }
    std::string where = map_.where(cpus);
    return where.empty() ? out : out + " " + where;
  }

  [[nodiscard]] std::string share_text(const Idset& cpus, std::size_t count, const std::vector<std::size_t>& users,
                                       std::size_t sharers) const {
    std::string out = fmt::format("{}: {} of the job's {}", place_text(cpus), count,
                                  counted(users.size(), level_name(request_.level)));
    if (sharers > 1) out += fmt::format(", shared with {}", counted(sharers - 1, "other task"));
    return out;
  }

  // Of the indexes of NUMA nodes, those that have memory.
  [[nodiscard]] Idset with_memory(const Idset& numas) const {
    Idset out;
    for (const auto& each : topology_.cpus.numas) {
      if (numas.contains(each.id) && each.has_memory) out.insert(each.id);
    }
    return out;
  }

  // Some NUMA nodes have the same cpus: the first that has memory stands for them.
  [[nodiscard]] Idset own_memory(const Idset& numas) const {
    Idset out;
    for (const auto& each : topology_.cpus.numas) {
      if (!numas.contains(each.id)) continue;
      auto first = std::find_if(topology_.cpus.numas.begin(), topology_.cpus.numas.end(),
                                [&](const auto& other) { return other.has_memory && other.cpus == each.cpus; });
      if (first != topology_.cpus.numas.end()) out.insert(first->id);
    }
    return out;
  }

  Result<void> choose_memory() {
    Idset all;
    for (const auto& each : topology_.cpus.numas) all.insert(each.id);
    if (with_memory(all).empty())
      return invalid(fmt::format("mem-affinity: this node has {}; use mem-affinity=off",
                                 all.empty() ? "no NUMA nodes that its kernel tells of"
                                             : "memory in none of its NUMA nodes " + all.str()));
    for (std::size_t i = 0; i < out_.tasks.size(); ++i) {
      PlacedTask& task = out_.tasks[i];
      if (i > 0 && task.cpus == out_.tasks[i - 1].cpus) {
        task.memory = out_.tasks[i - 1].memory;
        task.memory_why = out_.tasks[i - 1].memory_why;
      } else {
        choose_memory_of(task, with_memory(all));
      }
    }
    return {};
  }

  void choose_memory_of(PlacedTask& task, const Idset& all) const {
    Idset numas = map_.numbers(SetKind::numa, task.cpus);
    task.memory = own_memory(numas);
    if (!task.memory.empty()) {
      task.memory_why = fmt::format("numa {}, where its cpus are", task.memory.str());
      return;
    }
    // Its cpus have none: next to them is what is in their packages.
    Idset packages = map_.numbers(SetKind::package, task.cpus);
    for (const auto& each : topology_.cpus.numas) {
      if (each.has_memory && !(map_.numbers(SetKind::package, each.cpus) & packages).empty())
        task.memory.insert(each.id);
    }
    std::string_view why = task.memory.empty() ? "all that the node has" : "in the package of its cpus";
    if (task.memory.empty()) task.memory = all;
    task.memory_why = fmt::format("numa {}, {}, as {} no memory", task.memory.str(), why,
                                  numas.empty() ? "its cpus are near" : fmt::format("numa {} has", numas.str()));
  }

  const NodeTopology& topology_;
  const PlacementRequest& request_;
  NodeMap map_;
  Placement out_;
};

}  // namespace

Result<Placement> place(const NodeTopology& topology, const PlacementRequest& request) {
  return Placer(topology, request).place();
}

}  // namespace nacre::plugins
