// SPDX-License-Identifier: Apache-2.0
#include "usage/gpu.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/json.hpp"
#include "usage/row.hpp"

namespace nacre::usage {
namespace {

constexpr std::size_t kGpuElements = 6;
constexpr std::int64_t kMostPermille = 1000;

template <typename Number>
Json gpu_or_null(const std::optional<Number>& value) {
  return value ? Json(*value) : Json();
}

template <typename Number>
void raise_to(std::optional<Number>& most, const std::optional<Number>& value) {
  if (value) most = std::max(most.value_or(0), *value);
}

// As it goes to other shells: the leader's own rows are the same as if they came from there.
double mean_share(double sum, std::uint64_t count) {
  return std::round(sum / static_cast<double>(count) * kThousandths) / kThousandths;
}

}  // namespace

Json wire_of_share(const std::optional<double>& share) {
  return share ? Json(std::llround(*share * kThousandths)) : Json();
}

std::map<std::uint32_t, TaskGpu> gpus_by_rank(
    const GpuLook& look, const std::function<std::optional<std::uint32_t>(std::int64_t pid)>& task_of) {
  struct Found {
    std::uint64_t memory = 0;
    bool is_known = true;
    std::set<std::string> devices;
  };
  std::map<std::uint32_t, Found> found;
  for (const GpuProcess& each : look.processes) {
    auto rank = task_of(each.pid);
    if (!rank) continue;
    Found& of = found[*rank];
    of.memory = std::min(of.memory + each.memory.value_or(0), static_cast<std::uint64_t>(kMostOnWire));
    of.is_known = of.is_known && each.memory;
    of.devices.insert(each.devices.begin(), each.devices.end());
  }
  std::map<std::uint32_t, TaskGpu> out;
  for (const auto& [rank, of] : found) {
    TaskGpu& task = out[rank];
    if (of.is_known) task.memory = of.memory;
    double sum = 0;
    std::size_t known = 0;
    for (const GpuDevice& device : look.devices) {
      if (!device.use || !of.devices.contains(device.id)) continue;
      sum += *device.use;
      ++known;
    }
    if (known > 0) task.device_use = sum / static_cast<double>(known);
  }
  return out;
}

void TaskGpuTally::add(const TaskGpu& at_look) {
  ++looks_;
  if (!at_look.memory) has_unknown_ = true;
  peak_ = std::max(peak_, at_look.memory.value_or(0));
  if (!at_look.device_use) return;
  ++looks_at_use_;
  sum_of_use_ += *at_look.device_use;
}

std::optional<TaskGpu> TaskGpuTally::taken() const {
  if (looks_ == 0) return std::nullopt;
  TaskGpu out;
  if (!has_unknown_) out.memory = peak_;
  if (looks_at_use_ > 0) out.device_use = mean_share(sum_of_use_, looks_at_use_);
  return out;
}

Json NodeGpu::wire() const {
  return Json::array({vendor, index, id, gpu_or_null(memory_peak), gpu_or_null(memory), wire_of_share(use)});
}

Result<NodeGpu> NodeGpu::parse(const Json& wire) {
  auto at = TRY(JsonAt::root(wire).elements());
  if (at.size() < kGpuElements) return invalid("a device has too few elements");
  NodeGpu out;
  out.vendor = TRY(at[0].string());
  out.index = static_cast<std::uint32_t>(TRY(at[1].integer(0, UINT32_MAX)));
  out.id = TRY(at[2].string());
  if (!at[3].json().is_null()) out.memory_peak = static_cast<std::uint64_t>(TRY(at[3].integer(0, kMostOnWire)));
  if (!at[4].json().is_null()) out.memory = static_cast<std::uint64_t>(TRY(at[4].integer(0, kMostOnWire)));
  if (!at[5].json().is_null()) out.use = static_cast<double>(TRY(at[5].integer(0, kMostPermille))) / kThousandths;
  return out;
}

Json NodeGpu::json() const {
  Json out{{"vendor", vendor}, {"index", index}, {"id", id}};
  if (memory_peak) out["memory_peak"] = *memory_peak;
  if (memory) out["memory"] = *memory;
  if (use) out["use"] = *use;
  return out;
}

void NodeGpuTally::add(const GpuLook& look) {
  for (const GpuDevice& each : look.devices) {
    auto key = std::pair(each.vendor, each.index);
    if (!devices_.contains(key) && devices_.size() == NodeGpu::kMost) continue;
    Sums& sums = devices_[key];
    sums.device.vendor = each.vendor;
    sums.device.index = each.index;
    sums.device.id = each.id;
    raise_to(sums.device.memory_peak, each.memory_used);
    if (each.memory) sums.device.memory = each.memory;
    if (!each.use) continue;
    sums.use += *each.use;
    ++sums.looks;
  }
}

std::vector<NodeGpu> NodeGpuTally::taken() const {
  std::vector<NodeGpu> out;
  for (const auto& [key, sums] : devices_) {
    out.push_back(sums.device);
    if (sums.looks > 0) out.back().use = mean_share(sums.use, sums.looks);
  }
  return out;
}

}  // namespace nacre::usage
