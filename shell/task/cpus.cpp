// SPDX-License-Identifier: Apache-2.0
//
// Source of the file names: Documentation/ABI/stable/sysfs-devices-system-cpu of Linux, and -node beside it.
#include "task/cpus.hpp"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::task {
namespace {

using value::Idset;

constexpr int kMaxCaches = 16;  // of one cpu; x86 has 4

struct Names {
  const char* name;
  const char* before = nullptr;  // the name in older kernels, if it was another
};
constexpr Names kCore = {"topology/core_cpus_list", "topology/thread_siblings_list"};
constexpr Names kShared[] = {{"topology/package_cpus_list", "topology/core_siblings_list"},
                             {"topology/die_cpus_list"},
                             {"topology/cluster_cpus_list"},
                             {"topology/book_cpus_list", "topology/book_siblings_list"},
                             {"topology/drawer_cpus_list", "topology/drawer_siblings_list"}};

Result<Idset> read_list(const std::string& path) {
  std::string text = TRY(read_file(path));
  return in(path, Idset::parse(trim(text)));
}

// None if there is no such file.
Result<std::optional<Idset>> find_list(const std::string& directory, const Names& names) {
  for (const char* name : {names.name, names.before}) {
    if (name == nullptr) break;
    Result<Idset> list = read_list(directory + name);
    if (list) return std::optional(*std::move(list));
    if (list.error().code != ENOENT) return std::move(list).error();
  }
  return std::optional<Idset>();
}

// Sets of cpus that share something, such as a package or the caches of one level. They do not overlap.
class SharingLevel {
 public:
  void add(Idset cpus) {
    auto number = static_cast<std::uint32_t>(groups_.size());
    for (const Idset::Range& range : cpus.ranges()) {
      if (range.last >= group_of_.size()) group_of_.resize(range.last + std::size_t{1}, kNone);
      std::fill(group_of_.begin() + range.first, group_of_.begin() + range.last + 1, number);
    }
    groups_.push_back(std::move(cpus));
  }

  [[nodiscard]] const Idset* find(Idset::Id cpu) const {
    if (cpu >= group_of_.size() || group_of_[cpu] == kNone) return nullptr;
    return &groups_[group_of_[cpu]];
  }

  [[nodiscard]] const std::vector<Idset>& groups() const { return groups_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<Idset> groups_;
  std::vector<std::uint32_t> group_of_;  // by cpu
};

class Reader {
 public:
  Reader(const Idset& online, const std::string& system) : online_(online), system_(system) {}

  // False if the order of the cores is not certain.
  Result<bool> read() {
    CHECK_OK(read_cpus_of_cores());
    for (const Names& names : kShared) TRY(read_level(names, &names == kShared ? &packages_ : nullptr));
    for (int cache = 0; cache < kMaxCaches; ++cache) {
      std::string name = fmt::format("cache/index{}/shared_cpu_list", cache);
      if (!TRY(read_level({name.c_str()}, &caches_.emplace_back()))) break;
    }
    return TRY(read_nodes()) && sort();
  }

  Result<std::vector<Idset>> unordered_cores() {
    CHECK_OK(read_cpus_of_cores());
    return std::move(cores_);
  }

  std::vector<Idset> take_cores() { return std::move(cores_); }

  Result<CpuTopology> topology() {
    CpuTopology out;
    out.packages = in_order(std::move(packages_));
    for (std::size_t i = 0; i < caches_.size(); ++i) {
      if (TRY(is_third_level(i))) out.l3s = in_order(std::move(caches_[i]));
    }
    out.numas = TRY(numas());
    out.cores = std::move(cores_);
    return out;
  }

 private:
  [[nodiscard]] std::string cpu_directory(Idset::Id cpu) const {
    return fmt::format("{}/cpu/cpu{}/", system_, cpu);
  }

  // Ordered by their first cpu.
  Result<void> read_cpus_of_cores() {
    bool single = one_cpu_a_core(online_, system_);
    std::vector<bool> seen(*online_.last() + std::size_t{1});
    for (Idset::Id cpu : online_.ids()) {
      if (seen[cpu]) continue;
      Idset cpus;
      if (!single) cpus = TRY(find_list(cpu_directory(cpu), kCore)).value_or(Idset()) & online_;
      cpus.insert(cpu);
      for (Idset::Id each : cpus.ids()) seen[each] = true;
      cores_.push_back(std::move(cpus));
    }
    return {};
  }

  // False if the first cpu has no such file. `sets`: what is found, also if it is the cores themselves.
  Result<bool> read_level(const Names& names, std::vector<Idset>* sets) {
    auto first = TRY(find_list(cpu_directory(*cores_.front().first()), names));
    if (!first) return false;
    // If neither the first core nor the last shares something, no core does. This saves reading a file for each
    // core.
    if ((*first - cores_.front()).empty()) {
      auto last = TRY(find_list(cpu_directory(*cores_.back().first()), names));
      if (last && (*last - cores_.back()).empty()) {
        if (sets != nullptr) *sets = cores_;
        return true;
      }
    }
    SharingLevel level;
    level.add(*first & online_);
    for (const Idset& core : cores_) {
      if (level.find(*core.first()) != nullptr) continue;
      auto cpus = TRY(find_list(cpu_directory(*core.first()), names));
      if (cpus && cpus->contains(*core.first())) level.add(*cpus & online_);
    }
    if (sets != nullptr) *sets = level.groups();
    levels_.push_back(std::move(level));
    return true;
  }

  [[nodiscard]] Result<bool> is_third_level(std::size_t cache) const {
    if (caches_[cache].empty()) return false;
    auto level = read_file(fmt::format("{}cache/index{}/level", cpu_directory(*cores_.front().first()), cache));
    if (!level && level.error().code != ENOENT) return std::move(level).error();
    return level && trim(*level) == "3";
  }

  // Sets in the order of their first cores.
  [[nodiscard]] std::vector<Idset> in_order(std::vector<Idset> sets) const {
    SharingLevel level;
    for (Idset& each : sets) level.add(std::move(each));
    std::vector<Idset> out;
    std::vector<const Idset*> seen;
    for (const Idset& core : cores_) {
      const Idset* set = level.find(*core.first());
      if (set == nullptr || std::find(seen.begin(), seen.end(), set) != seen.end()) continue;
      seen.push_back(set);
      out.push_back(*set);
    }
    return out;
  }

  // By their ids.
  [[nodiscard]] Result<std::vector<CpuTopology::Numa>> numas() const {
    std::vector<CpuTopology::Numa> out;
    auto nodes = TRY(find_list(system_, {"/node/online"}));
    auto with_memory = TRY(find_list(system_, {"/node/has_memory"}));
    for (Idset::Id node : nodes.value_or(Idset()).ids()) {
      Idset cpus = TRY(read_list(fmt::format("{}/node/node{}/cpulist", system_, node))) & online_;
      out.push_back({node, std::move(cpus), !with_memory || with_memory->contains(node)});
    }
    return out;
  }

  // False if hwloc may group NUMA nodes by their distances into groups that are not neighbours.
  Result<bool> read_nodes() {
    auto nodes = TRY(find_list(system_, {"/node/online"}));
    if (!nodes || nodes->size() < 2) return true;
    SharingLevel level;
    for (Idset::Id node : nodes->ids()) {
      Idset cpus = TRY(read_list(fmt::format("{}/node/node{}/cpulist", system_, node))) & online_;
      if (!cpus.empty()) level.add(std::move(cpus));
    }
    if (nodes->size() > 2) {
      bool ascending = std::is_sorted(level.groups().begin(), level.groups().end(),
                                      [](const Idset& a, const Idset& b) { return *a.first() < *b.first(); });
      if (!ascending || !TRY(groups_are_neighbours(*nodes))) return false;
    }
    levels_.push_back(std::move(level));
    return true;
  }

  // If no node is nearer to a node farther along the list than to a closer one, then the nodes at the least
  // distance are neighbours, and so are groups of nodes at the least mean distance.
  Result<bool> groups_are_neighbours(const Idset& nodes) {
    std::vector<std::vector<std::uint64_t>> rows;
    for (Idset::Id node : nodes.ids()) {
      auto text = read_file(fmt::format("{}/node/node{}/distance", system_, node));
      if (!text) return text.error().code == ENOENT ? Result<bool>(true) : std::move(text).error();
      auto& row = rows.emplace_back();
      for (std::string_view word : split(trim(*text), ' ')) row.push_back(parse_u64(word).value_or(0));
      if (row.size() != nodes.size()) return false;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = i + 1; j < rows.size(); ++j) {
        bool ordered = rows[i][j] == rows[j][i] &&
                       (j == i + 1 || (rows[i][j - 1] <= rows[i][j] && rows[i + 1][j] <= rows[i][j]));
        if (!ordered) return false;
      }
    }
    return true;
  }

  // The first cpus of all sets that contain a core, from the largest set to the core itself: two cores differ in
  // one of them. None if these sets are not nested.
  [[nodiscard]] std::optional<std::vector<Idset::Id>> place_of(const Idset& core) const {
    std::vector<const Idset*> around;
    for (const SharingLevel& level : levels_) {
      if (const Idset* group = level.find(*core.first())) around.push_back(group);
    }
    std::stable_sort(around.begin(), around.end(),
                     [](const Idset* a, const Idset* b) { return a->size() > b->size(); });
    around.push_back(&core);
    std::vector<Idset::Id> place;
    for (std::size_t i = 0; i < around.size(); ++i) {
      if (i > 0 && !(*around[i] - *around[i - 1]).empty()) return std::nullopt;
      place.push_back(*around[i]->first());
    }
    return place;
  }

  bool sort() {
    std::vector<std::pair<std::vector<Idset::Id>, Idset>> placed;
    for (Idset& core : cores_) {
      auto place = place_of(core);
      if (!place) return false;
      placed.emplace_back(*std::move(place), std::move(core));
    }
    std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::transform(placed.begin(), placed.end(), cores_.begin(), [](auto& each) { return std::move(each.second); });
    return true;
  }

  const Idset& online_;
  const std::string& system_;
  std::vector<Idset> cores_;
  std::vector<SharingLevel> levels_;
  std::vector<Idset> packages_;
  std::vector<std::vector<Idset>> caches_;  // by the index of the kernel's files
};

}  // namespace

Result<Idset> read_online_cpus(const std::string& system) {
  Idset cpus = TRY(read_list(system + "/cpu/online"));
  if (cpus.empty()) return invalid(system + "/cpu/online: no cpus");
  return cpus;
}

bool one_cpu_a_core(const Idset& online, const std::string& system) {
  auto active = read_file(system + "/cpu/smt/active");
  if (!active || trim(*active) != "0") return false;
  // A kernel that was built without knowledge of threads always has 0 here.
  auto core = find_list(fmt::format("{}/cpu/cpu{}/", system, *online.first()), kCore);
  return core && *core && (*core)->size() == 1;
}

Result<std::vector<Idset>> read_unordered_cores(const Idset& online, const std::string& system) {
  return Reader(online, system).unordered_cores();
}

Result<std::optional<std::vector<Idset>>> read_cores(const Idset& online, const std::string& system) {
  Reader reader(online, system);
  if (!TRY(reader.read())) return std::optional<std::vector<Idset>>();
  return std::optional(reader.take_cores());
}

Result<std::optional<CpuTopology>> read_cpu_topology(const Idset& online, const std::string& system) {
  Reader reader(online, system);
  if (!TRY(reader.read())) return std::optional<CpuTopology>();
  return std::optional(TRY(reader.topology()));
}

namespace {

constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
constexpr std::size_t kMaskWords = 65536 / kWordBits;  // more cpus than any kernel is built for

void* ask_for_all_cpus(void* result) {
  CpuMask mask(kMaskWords, ~0UL);
  ::sched_setaffinity(0, kMaskWords * sizeof(unsigned long), reinterpret_cast<cpu_set_t*>(mask.data()));
  *static_cast<Idset*>(result) = cpus_allowed_to(0);
  return nullptr;
}

// sched_setaffinity(2) with all cpus leaves those that the cgroup grants. A thread of its own makes the call, as
// affinity belongs to a thread: the caller's does not change.
Idset cpus_of_cgroup() {
  Idset cpus;
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, ask_for_all_cpus, &cpus) != 0) return cpus_allowed_to(0);
  ::pthread_join(thread, nullptr);
  return cpus;
}

}  // namespace

Result<CpuRights> read_cpu_rights(const std::string& system) {
  CpuRights rights;
  auto online = read_online_cpus(system);
  if (!online && online.error().code != ENOENT) return std::move(online).error();
  rights.online = online ? *std::move(online) : cpus_of_cgroup();
  rights.allowed = cpus_allowed_to(0) & rights.online;
  // If a thread may use all cpus, its cgroup forbids none.
  rights.cgroup = rights.allowed == rights.online ? rights.online : cpus_of_cgroup() & rights.online;
  return rights;
}

std::vector<Idset> cores_within(const std::vector<Idset>& cores, const Idset& cpus) {
  std::vector<Idset> out;
  for (const Idset& core : cores) {
    if (Idset left = core & cpus; !left.empty()) out.push_back(std::move(left));
  }
  return out;
}

CpuMask mask_of(const Idset& cpus) {
  CpuMask mask(cpus.empty() ? 0 : *cpus.last() / kWordBits + 1);
  for (Idset::Id cpu : cpus.ids()) mask[cpu / kWordBits] |= 1UL << (cpu % kWordBits);
  return mask;
}

Idset cpus_allowed_to(pid_t process) {
  CpuMask mask(kMaskWords);
  auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
  if (::sched_getaffinity(process, kMaskWords * sizeof(unsigned long), set) < 0) return {};
  return set_of(mask);
}

Idset set_of(const CpuMask& mask) {
  Idset set;
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::size_t bit = 0; mask[word] != 0 && bit < kWordBits; ++bit) {
      if (mask[word] >> bit & 1UL) set.insert(static_cast<Idset::Id>(word * kWordBits + bit));
    }
  }
  return set;
}

// ---- memory policy ----------------------------------------------------------------------

namespace {

constexpr int kPreferMany = 5;  // MPOL_PREFERRED_MANY, which older headers lack

struct PolicyName {
  std::string_view text;
  int mode;
};
constexpr PolicyName kPolicyNames[] = {
    {"bind", MPOL_BIND}, {"prefer", MPOL_PREFERRED}, {"prefer", kPreferMany}, {"interleave", MPOL_INTERLEAVE}};

}  // namespace

std::optional<MemoryPolicy> memory_policy(std::string_view name, const value::Idset& nodes) {
  const auto* found = std::find_if(std::begin(kPolicyNames), std::end(kPolicyNames),
                                   [&](const PolicyName& each) { return each.text == name; });
  if (found == std::end(kPolicyNames)) return std::nullopt;
  // MPOL_PREFERRED takes the first of several nodes, and passes over the others.
  int mode = found->mode == MPOL_PREFERRED && nodes.size() > 1 ? kPreferMany : found->mode;
  return MemoryPolicy{mode, mask_of(nodes)};
}

std::string memory_policy_text(const MemoryPolicy& policy) {
  const auto* found = std::find_if(std::begin(kPolicyNames), std::end(kPolicyNames),
                                   [&](const PolicyName& each) { return each.mode == policy.mode; });
  return fmt::format("{} {}",
                     found == std::end(kPolicyNames) ? fmt::format("{}", policy.mode) : std::string(found->text),
                     set_of(policy.nodes).str());
}

}  // namespace nacre::task
