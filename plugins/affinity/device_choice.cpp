// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/device_choice.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include <fmt/format.h>

#include "plugins/affinity/affinity_option.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

// For each task how near each device is. Neighbours with the same cpus have one row.
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
  // Of those with the fewest users, the one that is near to the fewest cpus: others may be near to more tasks.
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

  // What is left over, where the number of gpus is no multiple of that of tasks.
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

  // Tasks to which the same gpus are near exchange them, so that each has neighbours.
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

// Without those that hwloc does not see, if there are enough others for what each task has asked for.
std::vector<Idset::Id> ids_for(const NodeTopology& topology, const PlacementRequest& request, std::size_t tasks) {
  std::vector<Idset::Id> seen = request.gpu_ids;
  std::erase_if(seen, [&](Idset::Id id) { return id >= topology.gpus.size(); });
  return request.gpus_each > 0 && seen.size() >= request.gpus_each * tasks ? seen : request.gpu_ids;
}

void deal_evenly(const PlacementRequest& request, std::vector<PlacedTask>& tasks) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    auto [first, last] = part_of(i, tasks.size(), request.gpu_ids.size(), request.gpus_each);
    tasks[i].gpus.assign(request.gpu_ids.begin() + static_cast<std::ptrdiff_t>(first),
                         request.gpu_ids.begin() + static_cast<std::ptrdiff_t>(last));
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

Result<void> choose_gpus(const NodeTopology& topology, const NodeMap& map, const PlacementRequest& request,
                         std::vector<PlacedTask>& tasks) {
  if (request.gpus == PlacementRequest::Gpus::evenly) {
    deal_evenly(request, tasks);
    return {};
  }
  const std::vector<Idset::Id> ids = ids_for(topology, request, tasks.size());
  std::vector<const Device*> gpus;
  for (Idset::Id id : ids) {
    if (id >= topology.gpus.size()) return no_such_gpu(topology, id);
    gpus.push_back(&topology.gpus[id]);
  }
  if (gpus.empty()) return {};
  NearnessTable near(map, tasks, gpus);
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

}  // namespace nacre::plugins
