// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/gpu_meter.hpp"

#include <utility>

#include "base/json.hpp"
#include "usage/row.hpp"

namespace nacre::plugins {

GpuMeter::GpuMeter(plugin::Host& host, GpuWatch::Complain complain) : host_(host) {
  watch_.emplace(host, std::move(complain));
}

Result<void> GpuMeter::started(const task::Task& task) {
  if (!watch_ || !watch_->has_tools()) return {};
  running_[task.rank()] = {};
  if (std::exchange(is_due_, true)) return {};
  if (!timer_) {
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
    timer_->unref();
  }
  timer_->start(kFirstLook);
  return {};
}

void GpuMeter::look() {
  is_due_ = watch_ && !running_.empty();
  if (is_due_) watch_->look([this](const usage::GpuLook& look) { take(look); });
}

void GpuMeter::take(const usage::GpuLook& look) {
  last_ = gpus_of_tasks(host_, look);
  devices_.add(look);
  for (auto& [rank, tally] : running_) {
    auto found = last_.find(rank);
    if (found != last_.end())
      tally.add(found->second);
    else if (look.is_complete)
      tally.add({0, std::nullopt});
  }
  timer_->start(kPeriod);
}

std::optional<usage::TaskGpu> GpuMeter::exited(const task::Task& task) {
  last_.erase(task.rank());
  auto found = running_.extract(task.rank());
  return found ? found.mapped().taken() : std::nullopt;
}

Json GpuMeter::now() const {
  Json notes = Json::array();
  if (watch_) {
    for (const std::string& each : watch_->notes()) notes.push_back(each);
  }
  return {{"tasks", wire_of_gpus(last_)}, {"notes", std::move(notes)}};
}

void GpuMeter::stop() {
  watch_.reset();
  timer_.reset();
}

Json wire_of_gpus(const std::map<std::uint32_t, usage::TaskGpu>& tasks) {
  Json out = Json::array();
  for (const auto& [rank, task] : tasks)
    out.push_back(Json::array(
        {rank, task.memory ? Json(*task.memory) : Json(), task.device_use ? Json(*task.device_use) : Json()}));
  return out;
}

Result<std::map<std::uint32_t, usage::TaskGpu>> gpus_from(const Json& wire) {
  constexpr std::size_t kMembers = 3;
  std::map<std::uint32_t, usage::TaskGpu> out;
  for (const JsonAt& each : TRY(JsonAt::root(wire).elements())) {
    auto at = TRY(each.elements());
    if (at.size() != kMembers) return each.expected("rank, memory and use");
    usage::TaskGpu& task = out[static_cast<std::uint32_t>(TRY(at[0].integer(0, UINT32_MAX)))];
    if (!at[1].json().is_null())
      task.memory = static_cast<std::uint64_t>(TRY(at[1].integer(0, usage::kMostOnWire)));
    if (!at[2].json().is_null()) task.device_use = TRY(at[2].number());
  }
  return out;
}

}  // namespace nacre::plugins
