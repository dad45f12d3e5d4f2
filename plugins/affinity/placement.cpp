// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/placement.hpp"

namespace nacre::plugins {

// ---- cpu division -----------------------------------------------------------------------
//
// How units (cores, or larger or smaller ones) are divided among tasks. Pure.
//
// With at least as many units as tasks, each task gets at least the even share, rounded down, and shares no unit.
// Groups, such as NUMA nodes, are nested: no task has units of several groups if all even shares fit into groups
// without that. So a share may be larger than the even one, and units of a group in which no share fits may be left
// over. With fewer units than tasks each task gets one; the tasks are shared out by the units' weights.

struct Units {
  std::vector<std::size_t> weights;  // for each unit, in the order of neighbours: how many cores it has; above 0
  // For each kind of group, by unit, the number of the unit's group. Neighbours with the same number are a group.
  std::vector<std::vector<std::size_t>> groups;
};

namespace {

using Share = std::vector<std::size_t>;

// Units [first, last), and the groups within; a unit without a group is one of its own.
struct Group {
  std::size_t first = 0;
  std::size_t last = 0;
  std::vector<Group> parts;

  [[nodiscard]] std::size_t size() const { return last - first; }
  [[nodiscard]] bool has_groups() const {
    return std::any_of(parts.begin(), parts.end(), [](const Group& each) { return !each.parts.empty(); });
  }
};

// Groups of several units, the outer ones first.
std::vector<Group> groups_of(const Units& units) {
  std::vector<Group> out;
  std::size_t count = units.weights.size();
  for (const auto& numbers : units.groups) {
    for (std::size_t first = 0, last = 0; first < count; first = last) {
      while (last < count && numbers[last] == numbers[first]) ++last;
      if (last - first > 1 && last - first < count) out.push_back({first, last, {}});
    }
  }
  std::sort(out.begin(), out.end(), [](const Group& a, const Group& b) {
    return a.first != b.first ? a.first < b.first : a.last > b.last;
  });
  return out;
}

// Puts the groups from `next` on that are within `group` into it. A group that is only partly in it is left out, as
// groups are nested.
void fill(Group& group, const std::vector<Group>& groups, std::size_t& next) {
  std::size_t covered = group.first;
  auto add_units = [&](std::size_t end) {
    for (; covered < end; ++covered) group.parts.push_back({covered, covered + 1, {}});
  };
  while (next < groups.size() && groups[next].first < group.last) {
    Group part = groups[next++];
    if (part.first < covered || part.last > group.last || part.size() == group.size()) continue;
    add_units(part.first);
    fill(part, groups, next);
    covered = part.last;
    group.parts.push_back(std::move(part));
  }
  add_units(group.last);
}

class Divider {
 public:
  explicit Divider(const Units& units) : weights_(units.weights), is_free_(units.weights.size(), true) {}

  void divide(const Group& group, std::size_t tasks) {
    if (tasks == 0) return;
    Share free = free_in(group);
    if (tasks == 1) return shares.push_back(std::move(free));
    if (tasks > free.size()) return divide_few(group, free, tasks);
    if (!group.has_groups()) return deal(free, tasks);
    divide_parts(group, free.size() / tasks, tasks);
  }

  std::vector<Share> shares;

 private:
  [[nodiscard]] Share free_in(const Group& group) const {
    Share out;
    for (std::size_t i = group.first; i < group.last; ++i) {
      if (is_free_[i]) out.push_back(i);
    }
    return out;
  }

  [[nodiscard]] std::size_t count_free(const Group& group) const {
    auto at = [&](std::size_t i) { return is_free_.begin() + static_cast<std::ptrdiff_t>(i); };
    return static_cast<std::size_t>(std::count(at(group.first), at(group.last), true));
  }

  void deal(const Share& units, std::size_t tasks) {
    for (std::size_t task = 0; task < tasks; ++task) {
      auto [first, last] = share_of(task, tasks, units.size());
      shares.emplace_back(units.begin() + static_cast<std::ptrdiff_t>(first),
                          units.begin() + static_cast<std::ptrdiff_t>(last));
    }
  }

  // Gives the tasks one by one to the part in which a task then has the most: this makes the smallest share as
  // large as possible.
  static std::vector<std::size_t> apportion(const std::vector<std::size_t>& weights, std::size_t tasks) {
    std::vector<std::size_t> counts(weights.size());
    for (; tasks > 0; --tasks) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < weights.size(); ++i) {
        if (weights[i] * (counts[best] + 1) > weights[best] * (counts[i] + 1)) best = i;
      }
      ++counts[best];
    }
    return counts;
  }

  // For fewer units than tasks.
  void divide_few(const Group& group, const Share& free, std::size_t tasks) {
    if (free.size() == 1) {
      shares.insert(shares.end(), tasks, free);
      return;
    }
    std::vector<std::size_t> weights;
    for (const Group& part : group.parts) {
      std::size_t weight = 0;
      for (std::size_t unit : free_in(part)) weight += weights_[unit];
      weights.push_back(weight);
    }
    std::vector<std::size_t> counts = apportion(weights, tasks);
    for (std::size_t i = 0; i < counts.size(); ++i) divide(group.parts[i], counts[i]);
  }

  // `share`: how many units each task is to have at least.
  void divide_parts(const Group& group, std::size_t share, std::size_t tasks) {
    std::vector<std::size_t> sizes;
    std::size_t fit = 0;
    for (const Group& part : group.parts) {
      sizes.push_back(count_free(part));
      fit += sizes.back() / share;
    }
    if (fit >= tasks) {
      std::vector<std::size_t> counts = apportion(sizes, tasks);
      for (std::size_t i = 0; i < counts.size(); ++i) divide(group.parts[i], counts[i]);
      return;
    }
    // Each part gets as many tasks as it can hold; the rest get what is left of several parts.
    Share left;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      take(group.parts[i], sizes[i] % share, share, left);
      divide(group.parts[i], sizes[i] / share);
    }
    deal(left, tasks - fit);
  }

  // Takes `count` units, first from what parts have beyond whole shares.
  void take(const Group& group, std::size_t count, std::size_t share, Share& out) {
    if (count == 0) return;
    std::size_t before = out.size();
    if (group.has_groups()) {
      for (const Group& part : group.parts) {
        std::size_t left = count - (out.size() - before);
        take(part, std::min(left, count_free(part) % share), share, out);
      }
    }
    Share free = free_in(group);
    std::size_t more = count - (out.size() - before);
    for (std::size_t i = free.size() - more; i < free.size(); ++i) {
      is_free_[free[i]] = false;
      out.push_back(free[i]);
    }
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
  }

  const std::vector<std::size_t>& weights_;
  std::vector<bool> is_free_;
};

}  // namespace

// For each task its units, ascending; the tasks are ordered by their first units. `tasks` and the units: at least
// 1.
std::vector<std::vector<std::size_t>> divide(const Units& units, std::size_t tasks) {
  Group all{0, units.weights.size(), {}};
  std::size_t next = 0;
  fill(all, groups_of(units), next);
  Divider divider(units);
  divider.divide(all, tasks);
  std::stable_sort(divider.shares.begin(), divider.shares.end(),
                   [](const Share& a, const Share& b) { return a.front() < b.front(); });
  return std::move(divider.shares);
}

// ---- node map ---------------------------------------------------------------------------
//
// A node's sets by cpu, for fast answers: in which core, l3, NUMA node and package a cpu is, and how near a device
// is to a task's cpus.

// Kinds of sets, the inner ones first.
enum class SetKind { core, l3, numa, package };
inline constexpr SetKind kSetKinds[] = {SetKind::core, SetKind::l3, SetKind::numa, SetKind::package};

// How near a device is to cpus, the nearest first.
enum class Nearness { local, partly, same_package, unknown, elsewhere };
inline constexpr Nearness kNearness[] = {Nearness::local, Nearness::partly, Nearness::same_package,
                                         Nearness::unknown, Nearness::elsewhere};

namespace {

using value::Idset;

constexpr std::string_view kSetNames[] = {"core", "l3", "numa", "package"};

std::string_view name_of(SetKind kind) { return kSetNames[static_cast<std::size_t>(kind)]; }

}  // namespace

class NodeMap {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  explicit NodeMap(const NodeTopology& topology) : topology_(topology), all_(topology.all_cpus()) {
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
    has_parts_ = topology.has_parts();
  }

  // The index of the set of that kind that has this cpu, in the topology's order; kNone.
  [[nodiscard]] std::size_t index(SetKind kind, Idset::Id cpu) const {
    const auto& by_cpu = by_cpu_[static_cast<std::size_t>(kind)];
    return cpu < by_cpu.size() ? by_cpu[cpu] : kNone;
  }

  [[nodiscard]] bool has(SetKind kind) const { return !by_cpu_[static_cast<std::size_t>(kind)].empty(); }

  // The numbers, as texts have them, of all sets of that kind that have one of these cpus.
  [[nodiscard]] value::Idset numbers(SetKind kind, const Idset& cpus) const {
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

  // "l3 0, numa 0, package 0"; "over numa 0-1, in package 0" if there are several of a kind.
  [[nodiscard]] std::string where(const Idset& cpus) const {
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

  [[nodiscard]] Nearness nearness(const Idset& cpus, const Device& device) const {
    if (!has_parts_) return Nearness::local;
    if (is_unknown(device)) return Nearness::unknown;
    if ((cpus - device.cpus).empty()) return Nearness::local;
    if (!(cpus & device.cpus).empty()) return Nearness::partly;
    bool shares = !(numbers(SetKind::package, cpus) & numbers(SetKind::package, device.cpus)).empty();
    return shares ? Nearness::same_package : Nearness::elsewhere;
  }

  // "at numa 0", or else "at package 0"; "anywhere" if nothing is known.
  [[nodiscard]] std::string place_of(const Device& device) const {
    if (has_parts_ && is_unknown(device)) return "anywhere";
    for (SetKind kind : {SetKind::numa, SetKind::package}) {
      Idset found = numbers(kind, device.cpus);
      if (found.size() == 1) return fmt::format("at {} {}", name_of(kind), found.str());
    }
    return fmt::format("at cpus {}", device.cpus.str());
  }

 private:
  static void put(std::vector<std::size_t>& by_cpu, const Idset& cpus, std::size_t index) {
    if (cpus.empty()) return;
    if (*cpus.last() >= by_cpu.size()) by_cpu.resize(*cpus.last() + std::size_t{1}, kNone);
    for (const Idset::Range& range : cpus.ranges()) {
      for (std::size_t cpu = range.first; cpu <= range.last; ++cpu) {
        // of NUMA nodes with the same cpus, the first
        if (by_cpu[cpu] == kNone) by_cpu[cpu] = index;
      }
    }
  }

  static std::vector<std::size_t> map_of(const std::vector<Idset>& sets) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < sets.size(); ++i) put(out, sets[i], i);
    return out;
  }

  [[nodiscard]] bool is_unknown(const Device& device) const { return device.cpus.empty() || device.cpus == all_; }

  const NodeTopology& topology_;
  std::vector<std::vector<std::size_t>> by_cpu_;  // by kind; empty: no set of that kind
  value::Idset all_;
  bool has_parts_;
};

// ---- device choice ----------------------------------------------------------------------
//
// The part of a placement that is about devices: which gpus and which network cards tasks get, once their cpus are
// known. placement.hpp has the rules.

namespace {

using value::Idset;

// How near each device is to each task. Neighbours with the same cpus have one row.
class NearnessTable {
 public:
  NearnessTable(const NodeMap& map, const std::vector<PlacedTask>& tasks,
                const std::vector<const Device*>& devices) {
    const Idset* before = nullptr;
    for (const PlacedTask& task : tasks) {
      if (before == nullptr || task.cpus != *before) {
        auto& row = rows_.emplace_back();
        for (const Device* each : devices) row.push_back(map.nearness(task.cpus, *each));
      }
      row_of_.push_back(rows_.size() - 1);
      before = &task.cpus;
    }
  }

  [[nodiscard]] Nearness at(std::size_t task, std::size_t device) const { return rows_[row_of_[task]][device]; }
  [[nodiscard]] bool are_alike(std::size_t a, std::size_t b) const {
    return rows_[row_of_[a]] == rows_[row_of_[b]];
  }
  // No device is nearer to some task than another.
  [[nodiscard]] bool is_even() const {
    return std::all_of(rows_.begin(), rows_.end(), [](const auto& row) {
      return std::all_of(row.begin(), row.end(), [&](Nearness each) { return each == row.front(); });
    });
  }

 private:
  std::vector<std::vector<Nearness>> rows_;
  std::vector<std::size_t> row_of_;
};

std::string_view reason(Nearness nearness) {
  switch (nearness) {
    case Nearness::local: return "where its cpus are";
    case Nearness::partly: return "where some of its cpus are";
    case Nearness::same_package: return "in the package of its cpus";
    case Nearness::unknown: return "as far as the node tells";
    case Nearness::elsewhere: break;
  }
  return "far from its cpus";
}

// Pairs tasks and gpus, the nearest first.
class GpuPairing {
 public:
  // `exactly`: so many for each task; 0: all gpus are given away.
  GpuPairing(const NearnessTable& near, const std::vector<const Device*>& gpus, std::size_t tasks,
             std::size_t exactly)
      : near_(near), gpus_(gpus), exactly_(exactly), of_task_(tasks), users_(gpus.size()) {
    for (const Device* each : gpus) cpus_.push_back(each->cpus.size());
  }

  // Each task's gpus, as indexes.
  std::vector<std::vector<std::size_t>> pair() {
    std::size_t tasks = of_task_.size();
    bool is_shared = gpus_.size() < tasks;
    std::size_t each = is_shared ? 1 : exactly_ > 0 ? exactly_ : gpus_.size() / tasks;
    std::size_t most_users = is_shared ? (tasks + gpus_.size() - 1) / gpus_.size() : 1;
    // One at a time, so that no task takes all that is near to several.
    for (Nearness wanted : kNearness) {
      for (std::size_t count = 1; count <= each; ++count) {
        for (std::size_t task = 0; task < tasks; ++task) {
          if (of_task_[task].size() < count) take_best(task, wanted, most_users);
        }
      }
    }
    if (exactly_ == 0) deal_rest();
    if (!is_shared) exchange();
    for (auto& own : of_task_) std::sort(own.begin(), own.end());
    return std::move(of_task_);
  }

 private:
  // Of the gpus with the fewest users, takes the one that is near to the fewest cpus, as the others may suit more
  // tasks.
  void take_best(std::size_t task, Nearness wanted, std::size_t most_users) {
    std::size_t best = gpus_.size();
    auto rank = [&](std::size_t gpu) { return std::tuple(users_[gpu], cpus_[gpu], gpu); };
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      if (users_[gpu] >= most_users || near_.at(task, gpu) != wanted) continue;
      if (best == gpus_.size() || rank(gpu) < rank(best)) best = gpu;
    }
    if (best == gpus_.size()) return;
    ++users_[best];
    of_task_[task].push_back(best);
  }

  // Gives out what is left, if the number of gpus is no multiple of that of tasks.
  void deal_rest() {
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      if (users_[gpu] > 0) continue;
      std::size_t best = 0;
      auto rank = [&](std::size_t task) { return std::tuple(of_task_[task].size(), near_.at(task, gpu)); };
      for (std::size_t task = 1; task < of_task_.size(); ++task) {
        if (rank(task) < rank(best)) best = task;
      }
      ++users_[gpu];
      of_task_[best].push_back(gpu);
    }
  }

  // Tasks that are equally near to the same gpus exchange them, so that each has neighbouring gpus.
  void exchange() {
    std::size_t tasks = of_task_.size();
    for (std::size_t first = 0, last = 0; first < tasks; first = last) {
      while (last < tasks && near_.are_alike(first, last)) ++last;
      for (Nearness nearness : kNearness) exchange(first, last, nearness);
    }
  }

  void exchange(std::size_t first, std::size_t last, Nearness nearness) {
    auto is_such = [&](std::size_t gpu) { return near_.at(first, gpu) == nearness; };
    std::vector<std::size_t> pool;
    for (std::size_t task = first; task < last; ++task)
      std::copy_if(of_task_[task].begin(), of_task_[task].end(), std::back_inserter(pool), is_such);
    std::sort(pool.begin(), pool.end());
    auto next = pool.begin();
    for (std::size_t task = first; task < last; ++task) {
      for (std::size_t& gpu : of_task_[task]) {
        if (is_such(gpu)) gpu = *next++;
      }
    }
  }

  const NearnessTable& near_;
  const std::vector<const Device*>& gpus_;
  std::size_t exactly_;
  std::vector<std::vector<std::size_t>> of_task_;
  std::vector<std::size_t> users_;
  std::vector<std::size_t> cpus_;
};

Error no_such_gpu(const NodeTopology& topology, Idset::Id id) {
  std::size_t count = topology.gpus.size();
  std::string has = count == 0   ? "sees none"
                    : count == 1 ? "sees 1 (0)"
                                 : fmt::format("sees {} (0-{})", count, count - 1);
  return invalid(fmt::format(
      "gpu-affinity: closest: the job has gpu {} of this node, of which hwloc {}; use gpu-affinity=per-task", id,
      has));
}

// The ids without those that hwloc does not see, if there are enough others for what each task has asked for.
std::vector<Idset::Id> ids_for(const NodeTopology& topology, const PlacementRequest& request) {
  std::vector<Idset::Id> seen = request.gpu_ids;
  std::erase_if(seen, [&](Idset::Id id) { return id >= topology.gpus.size(); });
  return request.gpus_each > 0 && seen.size() >= request.gpus_each * request.tasks ? seen : request.gpu_ids;
}

void deal_evenly(const PlacementRequest& request, const std::vector<Idset::Id>& ids, std::string_view why,
                 std::vector<PlacedTask>& tasks) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    PlacedTask& task = tasks[i];
    auto [first, last] = part_of(i, tasks.size(), ids.size(), request.gpus_each);
    task.gpus.assign(ids.begin() + static_cast<std::ptrdiff_t>(first),
                     ids.begin() + static_cast<std::ptrdiff_t>(last));
    if (request.gpus != PlacementRequest::Gpus::evenly)
      task.gpus_why = fmt::format("gpu {} by number: {}", Idset::of(task.gpus).str(), why);
  }
}

// How many of their bridges two devices have in common.
std::size_t common_bridges(const Device& a, const Device& b) {
  auto [end, ignored] = std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  return static_cast<std::size_t>(end - a.bridges.begin());
}

// The gpu of the task with which this card has the most bridges in common.
struct Beside {
  std::size_t bridges = 0;
  Idset::Id gpu = 0;
};

Beside beside(const NodeTopology& topology, const PlacedTask& task, const Device& nic) {
  Beside out;
  for (Idset::Id gpu : task.gpus) {
    if (gpu >= topology.gpus.size()) continue;
    std::size_t bridges = common_bridges(topology.gpus[gpu], nic);
    if (bridges > out.bridges) out = {bridges, gpu};
  }
  return out;
}

void choose_nics_of(const NodeTopology& topology, const NodeMap& map, const NearnessTable& near,
                    std::size_t task_id, PlacedTask& task) {
  Nearness nearest = Nearness::elsewhere;
  for (std::size_t i = 0; i < topology.nics.size(); ++i) nearest = std::min(nearest, near.at(task_id, i));
  std::size_t most = 0;
  for (std::size_t i = 0; i < topology.nics.size(); ++i) {
    if (near.at(task_id, i) == nearest) most = std::max(most, beside(topology, task, topology.nics[i]).bridges);
  }
  for (std::size_t i = 0; i < topology.nics.size(); ++i) {
    const Device& nic = topology.nics[i];
    if (near.at(task_id, i) != nearest) continue;
    Beside gpu = beside(topology, task, nic);
    if (gpu.bridges < most) continue;
    task.nics.push_back(nic.name);
    task.nics_why += fmt::format("{}{}{} {}, {}", task.nics_why.empty() ? "" : "; ", nic.name,
                                 nic.bus.empty() ? "" : " (" + nic.bus + ")", map.place_of(nic), reason(nearest));
    // The first bridge is the host's, which is no switch.
    if (most > 1) task.nics_why += fmt::format(", behind a PCI switch with gpu {}", gpu.gpu);
  }
}

}  // namespace

// Whether the places of the gpus decide which ones tasks get.
bool goes_by_place(const NodeTopology& topology, const PlacementRequest& request) {
  if (request.gpus != PlacementRequest::Gpus::prefer_closest)
    return request.gpus == PlacementRequest::Gpus::closest;
  const std::vector<Idset::Id> ids = ids_for(topology, request);
  return std::all_of(ids.begin(), ids.end(), [&](Idset::Id id) { return id < topology.gpus.size(); });
}

Result<void> choose_gpus(const NodeTopology& topology, const NodeMap& map, const PlacementRequest& request,
                         std::vector<PlacedTask>& tasks) {
  if (!goes_by_place(topology, request)) {
    deal_evenly(request, request.gpu_ids, "the node does not tell where they all are", tasks);
    return {};
  }
  const std::vector<Idset::Id> ids = ids_for(topology, request);
  std::vector<const Device*> gpus;
  for (Idset::Id id : ids) {
    if (id >= topology.gpus.size()) return no_such_gpu(topology, id);
    gpus.push_back(&topology.gpus[id]);
  }
  if (gpus.empty()) return {};
  NearnessTable near(map, tasks, gpus);
  if (request.gpus == PlacementRequest::Gpus::prefer_closest && near.is_even()) {
    deal_evenly(request, ids, "all are equally near", tasks);
    return {};
  }
  const bool is_exact = request.gpus_each * tasks.size() <= gpus.size();
  auto pairs = GpuPairing(near, gpus, tasks.size(), is_exact ? request.gpus_each : 0).pair();
  std::vector<std::size_t> users(gpus.size());
  for (const auto& own : pairs) {
    for (std::size_t gpu : own) ++users[gpu];
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (std::size_t gpu : pairs[i]) {
      PlacedTask& task = tasks[i];
      task.gpus.push_back(ids[gpu]);
      task.gpus_why += fmt::format("{}gpu {} ({}) {}, {}", task.gpus_why.empty() ? "" : "; ", ids[gpu],
                                   gpus[gpu]->bus, map.place_of(*gpus[gpu]), reason(near.at(i, gpu)));
      if (near.at(i, gpu) == Nearness::elsewhere) task.gpus_why += ": the nearer ones are taken, or there are none";
      if (users[gpu] > 1)
        task.gpus_why += fmt::format(", shared with {} other task{}", users[gpu] - 1, users[gpu] == 2 ? "" : "s");
    }
  }
  return {};
}

// Called after the gpus are chosen.
Result<void> choose_nics(const NodeTopology& topology, const NodeMap& map, std::vector<PlacedTask>& tasks) {
  if (topology.nics.empty())
    return invalid(
        "nic-affinity: closest: hwloc sees no network card on this node that is up; use nic-affinity=off");
  std::vector<const Device*> nics;
  for (const Device& each : topology.nics) nics.push_back(&each);
  NearnessTable near(map, tasks, nics);
  for (std::size_t i = 0; i < tasks.size(); ++i) choose_nics_of(topology, map, near, i, tasks[i]);
  return {};
}

// ---- placement --------------------------------------------------------------------------

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

  // The cpus of several units.
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
      // a unit that is in no set counts as a set of its own
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

  // Whether each task's units are near as many gpus as it has asked for, without gpus that another task needs.
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

  // Shares for which suit() is true; none: there are none, or the node does not tell where its gpus are.
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

  // How many tasks there is room for.
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

  // As many units as asked for; if some tasks would be far from their gpus, in other places if possible.
  [[nodiscard]] Shares exact_shares(const LevelUnits& level) const {
    Shares shares = divide(level.units, request_.tasks);
    auto cut = [&] {
      for (auto& share : shares) share.resize(request_.cpus_each);
    };
    cut();
    if (request_.gpus_each == 0 || !goes_by_place(topology_, request_)) return shares;
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

  // Those of these NUMA nodes that have memory.
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
    // Its cpus have no memory: the nearest is that in their packages.
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
