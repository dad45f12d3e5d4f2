// SPDX-License-Identifier: Apache-2.0
//
// The first byte says which tool has printed the rest. Values that are read are within bounds, and a refused text
// adds nothing; a row comes out as it was sent.

#include "usage/gpu.hpp"
#include "base/json.hpp"
#include "require.hpp"
#include "usage/measure.hpp"

using nacre::fuzz::require;
using namespace nacre::usage;  // NOLINT

namespace {

void check(const GpuLook& look) {
  auto is_size = [](const std::optional<std::uint64_t>& size) {
    return !size || *size <= static_cast<std::uint64_t>(kMostOnWire);
  };
  for (const GpuDevice& each : look.devices) {
    require(!each.id.empty() && !each.vendor.empty(), "a device's names");
    require(!each.use || (*each.use >= 0 && *each.use <= 1), "a share");
    require(is_size(each.memory) && is_size(each.memory_used), "memory of a device");
  }
  for (const GpuProcess& each : look.processes)
    require(each.pid > 0 && is_size(each.memory), "a process and its memory");
  NodeGpuTally tally;
  tally.add(look);
  NodeRow node;
  node.gpus = tally.taken();
  auto again = NodeRow::parse(node.wire());
  require(again && *again == node, "devices come out of their row");
  auto task_of = [](std::int64_t pid) { return std::optional(static_cast<std::uint32_t>(pid % 2)); };
  for (const auto& [rank, task] : gpus_by_rank(look, task_of)) {
    require(!task.device_use || (*task.device_use >= 0 && *task.device_use <= 1), "a mean");
    require(is_size(task.memory), "memory of a task");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  GpuLook look;
  auto read = data[0] % 3 == 0   ? look.add_nvidia_devices(text)
              : data[0] % 3 == 1 ? look.add_nvidia_processes(text)
                                 : look.add_rocm(text);
  if (!read) {
    require(look == GpuLook(), "nothing of what is refused");
    require(read.error().message.starts_with("it"), read.error().message);
  }
  check(look);
  return 0;
}
