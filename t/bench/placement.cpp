// SPDX-License-Identifier: Apache-2.0
//
// How long the placement of the tasks of a node takes: one line for each number of tasks and level, the median of
// nine runs, in ms. The node has 256 cores of two threads in two packages, four NUMA nodes and 32 L3 caches each,
// with a gpu and a network card in each NUMA node. Build it with the release preset.

#include "plugins/affinity/placement.hpp"

using nacre::plugins::CpuLevel;
using nacre::plugins::Device;
using nacre::plugins::NodeTopology;
using nacre::plugins::PlacementRequest;
using nacre::value::Idset;

namespace {

constexpr std::size_t kRuns = 9;
constexpr Idset::Id kCores = 256;

// `first` up to `last`, and their second threads.
Idset cpus(Idset::Id first, Idset::Id last) {
  return Idset::range(first, last) | Idset::range(kCores + first, kCores + last);
}

std::vector<Idset> sets(Idset::Id size) {
  std::vector<Idset> out;
  for (Idset::Id first = 0; first < kCores; first += size) out.push_back(cpus(first, first + size - 1));
  return out;
}

NodeTopology big_node() {
  NodeTopology out;
  out.cpus.cores = sets(1);
  out.cpus.l3s = sets(8);
  out.cpus.packages = sets(128);
  for (Idset& each : sets(32)) {
    auto id = static_cast<Idset::Id>(out.cpus.numas.size());
    out.gpus.push_back({"", "0000:00:00.0", each, {id, id + 100}});
    out.nics.push_back({"mlx5", "0000:00:00.0", each, {id, id + 100}});
    out.cpus.numas.push_back({id, std::move(each), true});
  }
  return out;
}

double milliseconds(const NodeTopology& node, const PlacementRequest& request) {
  std::array<double, kRuns> times{};
  for (double& time : times) {
    auto start = std::chrono::steady_clock::now();
    auto placed = nacre::plugins::place(node, request);
    time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!placed || placed->tasks.size() != request.tasks) {
      std::fprintf(stderr, "%s\n", placed ? "too few tasks" : placed.error().message.c_str());
      std::exit(1);
    }
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

}  // namespace

int main() {
  NodeTopology node = big_node();
  for (std::size_t tasks : {8U, 64U, 100U, 256U, 512U}) {
    for (CpuLevel level : {CpuLevel::thread, CpuLevel::core, CpuLevel::l3, CpuLevel::numa, CpuLevel::package}) {
      PlacementRequest request;
      request.tasks = tasks;
      request.level = level;
      request.cores = node.cpus.cores;
      request.memory = true;
      request.gpus = PlacementRequest::Gpus::closest;
      for (Idset::Id id = 0; id < node.gpus.size(); ++id) request.gpu_ids.push_back(id);
      request.nics = true;
      std::string name(nacre::plugins::kCpuLevels[static_cast<std::size_t>(level)]);
      std::printf("%4zu tasks, per-task:%-8s %8.3f\n", tasks, name.c_str(), milliseconds(node, request));
    }
  }
}
