// SPDX-License-Identifier: Apache-2.0
//
// The use of GPUs: reads what nvidia-smi and rocm-smi print, and computes from it the use of a task and of a node.
// Memory is in bytes, a device's use from 0 to 1: the share of time in which something ran on it, over what its
// tool takes for "now". No tool says how much of that is whose.
#pragma once

#include "base/json_fwd.hpp"
#include "base/result.hpp"

namespace nacre::usage {

struct GpuDevice {
  std::string vendor;  // "nvidia", "amd"
  std::uint32_t index = 0;
  std::string id;             // the same in a process's `devices`: a UUID, or a card's name
  std::optional<double> use;  // none, as for all members: the tool does not know it
  std::optional<std::uint64_t> memory_used, memory;
  bool operator==(const GpuDevice&) const = default;
};

struct GpuProcess {
  std::int64_t pid = 0;
  std::optional<std::uint64_t> memory;
  std::vector<std::string> devices;  // that it uses; empty: not known
  bool operator==(const GpuProcess&) const = default;
};

// What all tools have said at about the same time. A process that uses several devices may be there several times.
struct GpuLook {
  std::vector<GpuDevice> devices;
  std::vector<GpuProcess> processes;
  bool is_complete = false;  // all tools have answered: a process that they do not list uses no GPU

  // Each adds the whole output of a command, or nothing if the text is wrong; the error says why.
  //   nvidia-smi --query-gpu=index,uuid,utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits
  Result<void> add_nvidia_devices(std::string_view text);
  //   nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv,noheader,nounits
  Result<void> add_nvidia_processes(std::string_view text);
  //   rocm-smi --showuse --showmeminfo vram --showpids --json
  Result<void> add_rocm(std::string_view text);

  bool operator==(const GpuLook&) const = default;
};

// A task's use at one look or, in its row, over all looks: the most memory, the mean use of its devices.
struct TaskGpu {
  std::optional<std::uint64_t> memory;  // of all of its processes, on all devices
  std::optional<double> device_use;     // the mean of the devices that it uses; none: it uses none, or that is not
                                        // known
  bool operator==(const TaskGpu&) const = default;
};

// For the tasks that have a process in `look`. `task_of`: the rank that a process belongs to.
[[nodiscard]] std::map<std::uint32_t, TaskGpu> gpus_by_rank(
    const GpuLook& look, const std::function<std::optional<std::uint32_t>(std::int64_t pid)>& task_of);

// What a task has used over several looks.
class TaskGpuTally {
 public:
  void add(const TaskGpu& at_look);
  // None: there was no look while it ran. Its memory is unknown if some look did not know it.
  [[nodiscard]] std::optional<TaskGpu> taken() const;

 private:
  std::uint64_t peak_ = 0;
  std::uint64_t looks_ = 0, looks_at_use_ = 0;
  bool has_unknown_ = false;
  double sum_of_use_ = 0;
};

// A device in the row of a node: with all processes on it, also those of other jobs.
struct NodeGpu {
  static constexpr std::size_t kMost = 64;  // of a node; those beyond are left out

  std::string vendor;
  std::uint32_t index = 0;
  std::string id;
  std::optional<std::uint64_t> memory_peak;  // at a look
  std::optional<std::uint64_t> memory;       // the device's own
  std::optional<double> use;                 // the mean of all looks

  [[nodiscard]] Json json() const;
  bool operator==(const NodeGpu&) const = default;
};

// The devices of a node over several looks.
class NodeGpuTally {
 public:
  void add(const GpuLook& look);
  [[nodiscard]] std::vector<NodeGpu> taken() const;  // by vendor and index

 private:
  struct Sums {
    NodeGpu device;
    double use = 0;
    std::uint64_t looks = 0;  // at its use
  };
  std::map<std::pair<std::string, std::uint32_t>, Sums> devices_;
};

inline constexpr double kThousandths = 1e3;  // shares are sent to other shells in thousandths

}  // namespace nacre::usage
