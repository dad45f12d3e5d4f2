// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/task_places.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/affinity_plan.hpp"
#include "task/cpu_rights.hpp"
#include "task/memory_policy.hpp"

namespace nacre::plugins {
namespace {

using Mode = AffinityOption::Mode;

constexpr std::array<const char*, 3> kGpuVariables = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                      "ZE_AFFINITY_MASK"};

class Placing {
 public:
  explicit Placing(plugin::Host& host) : host_(host), plan_(ask_for_plan(host, "ps --plan")) {
    if (auto option = AffinityOption::read(host.options().at("gpu-affinity"), AffinityOption::Of::gpus))
      gpu_option_ = *std::move(option);
  }

  [[nodiscard]] TaskPlace of(const task::Task& task) const {
    TaskPlace out;
    out.rank = task.rank();
    out.pid = task.pid();
    out.cpus_now = task::cpus_allowed_to(task.pid()).str();
    const PlacedTask* placed = plan_ ? &plan_->placement.tasks[task.local_id()] : nullptr;
    const task::ChildSetup& setup = task.command().setup;
    if (plan_ && plan_->is_dry_run)
      out.unset = "dry-run";
    else if (setup.is_pretended)
      out.unset = "a made-up machine";
    out.cpus = cpus(placed, out.cpus_now);
    if (setup.memory)
      out.memory = {task::memory_policy_text(*setup.memory), placed != nullptr ? placed->memory_why : ""};
    else if (placed != nullptr && !placed->memory_why.empty())
      out.memory = {placed->memory.str(), placed->memory_why};
    out.gpus = gpus(task, placed);
    if (placed != nullptr && !placed->nics_why.empty())
      out.nics = {fmt::format("{}", fmt::join(placed->nics, ",")), placed->nics_why};
    return out;
  }

 private:
  [[nodiscard]] TaskPlace::Part cpus(const PlacedTask* placed, const std::string& now) const {
    if (placed == nullptr) return {now, plan_.error().message};
    TaskPlace::Part out{placed->cpus.str(), placed->cpus_why};
    if (const value::Idset& unused = plan_->placement.unused; !unused.empty())
      out.why += fmt::format("; cpus {} of the job have no task", unused.str());
    return out;
  }

  // What it sees is what its environment names; why, the option has it.
  [[nodiscard]] TaskPlace::Part gpus(const task::Task& task, const PlacedTask* placed) const {
    auto count = host_.job().node().gpus.size();
    if (count == 0 && !gpu_option_.given) return {};
    bool is_closest = gpu_option_.mode == Mode::closest && placed != nullptr && !placed->gpus_why.empty();
    if (is_closest && gpu_option_.dry_run)
      return {fmt::format("{}", fmt::join(placed->gpus, ",")), placed->gpus_why};
    std::string_view seen;
    for (const char* name : kGpuVariables) {
      if (auto value = task.command().env.get(name); value && seen.empty()) seen = *value;
    }
    std::string where(seen == "-1" ? "none" : seen.empty() ? "not restricted" : seen);
    if (is_closest) return {where, placed->gpus_why};
    if (gpu_option_.mode == Mode::map) return {where, "as the map has it"};
    if (gpu_option_.mode == Mode::off) return {where, "as its environment has it"};
    if (gpu_option_.mode == Mode::on) return {where, fmt::format("all {} that the job has on the node", count)};
    return {where, fmt::format("its part of the job's {} on the node", count)};
  }

  plugin::Host& host_;
  Result<AffinityPlan> plan_;
  AffinityOption gpu_option_;
};

Json part_json(const TaskPlace::Part& part) { return Json::array({part.where, part.why}); }

Result<TaskPlace::Part> part_in(const JsonAt& json) {
  auto strings = TRY(json.strings());
  if (strings.size() != 2) return json.error("expected where and why");
  return TaskPlace::Part{std::move(strings[0]), std::move(strings[1])};
}

}  // namespace

Json TaskPlace::json() const {
  return {rank, pid, part_json(cpus), part_json(memory), part_json(gpus), part_json(nics), cpus_now, unset};
}

Result<TaskPlace> TaskPlace::parse(const Json& json) {
  constexpr std::size_t kMembers = 8;
  auto at = TRY(JsonAt::root(json).elements());
  if (at.size() != kMembers) return invalid("a place has eight members");
  TaskPlace out;
  out.rank = static_cast<std::uint32_t>(TRY(at[0].integer(0, UINT32_MAX)));
  out.pid = TRY(at[1].integer(1, INT32_MAX));
  out.cpus = TRY(part_in(at[2]));
  out.memory = TRY(part_in(at[3]));
  out.gpus = TRY(part_in(at[4]));
  out.nics = TRY(part_in(at[5]));
  out.cpus_now = TRY(at[6].string());
  out.unset = TRY(at[7].string());
  return out;
}

std::vector<TaskPlace> task_places(plugin::Host& host) {
  std::vector<TaskPlace> out;
  auto runs = [](const auto& task) { return task->state() == task::State::running; };
  auto tasks = host.tasks();
  if (std::none_of(tasks.begin(), tasks.end(), runs)) return out;
  Placing placing(host);
  for (const auto& task : tasks) {
    if (runs(task)) out.push_back(placing.of(*task));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

}  // namespace nacre::plugins
