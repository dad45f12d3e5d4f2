// SPDX-License-Identifier: Apache-2.0
//
// gpu-affinity: restricts each task to its gpus, by the variables that the vendors' libraries read.
// affinity_option.hpp has the forms of the option. `on` (the default): all gpus of the job on this node;
// `per-task`: each task its part of them; `closest`: the same, but the ones that are near its cpus, by the plan of
// cpu-affinity (affinity_plan.hpp); `prefer-closest`: as `closest` where the node tells where its gpus are, else as
// `per-task`; `map:LIST`: each task a set of its own, which need not be the job's; `off`:
// the environment is not changed.
//
//   CUDA_VISIBLE_DEVICES  NVIDIA; "-1" for none. With CUDA_DEVICE_ORDER=PCI_BUS_ID, so that ids mean the same as in
//                         R.
//   HIP_VISIBLE_DEVICES   AMD; "-1" for none
//   ZE_AFFINITY_MASK      Intel; cannot express none, and is unset then
//
// ROCR_VISIBLE_DEVICES is also AMD's, one layer below: HIP would number only the gpus that it leaves. So it is
// unset.
//
// If nobody has given an R and no gpus were found, all of them are left alone. If nobody has given an R and a
// manager has given names, as of MIG devices, the variable with the names shows each task its part of them; the
// others are left alone.
#include <fmt/format.h>

#include "base/program.hpp"
#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/affinity_plan.hpp"
#include "plugins/builtins.hpp"
#include "task/gpus.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;
using Mode = AffinityOption::Mode;

using Gpus = std::vector<Idset::Id>;

void show(job::Environment& environment, const std::string& gpus) {
  std::string list = gpus.empty() ? "-1" : gpus;
  environment.set("CUDA_VISIBLE_DEVICES", list);
  environment.set("HIP_VISIBLE_DEVICES", list);
  if (gpus.empty()) {
    environment.unset("ZE_AFFINITY_MASK");
  } else {
    environment.set("ZE_AFFINITY_MASK", list);
  }
}

class GpuAffinity final : public plugin::Plugin {
 public:
  explicit GpuAffinity(plugin::Host& host) : Plugin("gpu-affinity"), host_(host) {
    on("shell.init", [this] { return initialize(); });
    on("shell.take-over", [this]() -> Result<void> {
      slots_ = TRY(job::tasks_at_once(host_.options(), host_.job(), host_.tasks().size()));
      return is_planned() && !gpus_.empty() ? find_closest() : Result<void>();
    });
    on("task.init", [this] {
      if (option_.mode != Mode::on && option_.mode != Mode::off) show_share(*host_.current_task());
    });
  }

 private:
  Result<void> initialize() {
    option_ = TRY(AffinityOption::read(host_.options().at(name()), AffinityOption::Resource::gpus));
    if (option_.mode == Mode::off) return {};
    gpus_ = dealt_ = host_.job().node().gpus.ids();
    slots_ = TRY(job::tasks_at_once(host_.options(), host_.job(), host_.tasks().size()));
    for (const Idset& set : option_.map) {
      if (set.last() == kMaxAffinityId) return invalid(name() + ": map: a list of gpus needs an end, as in 4-7");
    }
    if (gpus_.empty() && host_.job().resources.is_made && !option_.given) option_.mode = Mode::off;
    if (is_planned() && !gpus_.empty()) CHECK_OK(find_closest());
    if (host_.job().gpus_each > 0 && (option_.mode == Mode::per_task || is_planned())) choose();
    std::string all = fmt::format("{}", fmt::join(gpus_, ","));
    if (option_.verbose && option_.mode != Mode::map)
      log(host_, *this, Level::notice, "gpus: {}", gpus_.empty() ? "none" : all);
    if (option_.dry_run || option_.mode == Mode::off) return {};
    if (host_.job().resources.is_made && option_.mode != Mode::map) named_ = task::find_gpus(own_variable);
    if (!named_.names.empty()) {
      host_.environment().set(named_.variable, names_of(gpus_));
      return {};
    }
    host_.environment().set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    host_.environment().unset("ROCR_VISIBLE_DEVICES");
    show(host_.environment(), all);
    return {};
  }

  // Each task gets as many as it has asked for, of all that the node offers; those are the job's then.
  void choose() {
    dealt_ = host_.job().node().all_gpus().ids();
    Gpus chosen;
    for (const auto& task : host_.tasks().first(slots_)) {
      Gpus own = gpus_of(*task);
      chosen.insert(chosen.end(), own.begin(), own.end());
    }
    host_.choose_gpus(Idset::of(chosen));
    gpus_ = host_.job().node().gpus.ids();
  }

  [[nodiscard]] bool is_planned() const {
    return option_.mode == Mode::closest || option_.mode == Mode::prefer_closest;
  }

  Result<void> find_closest() {
    auto plan = have_only_names(host_) ? invalid(name() +
                                                 ": closest: it is not known where gpus are that have only "
                                                 "names; use per-task")
                                       : ask_for_plan(host_, name());
    if (!plan && option_.mode == Mode::closest) return std::move(plan).error();
    if (plan) {
      plan_ = *std::move(plan);
    } else {
      log(host_, *this, Level::debug, "gpus are taken by number: {}", plan.error().message);
      option_.mode = Mode::per_task;
    }
    return {};
  }

  [[nodiscard]] Gpus gpus_of(const task::Task& task) {
    if (is_planned() && !gpus_.empty()) return plan_.placement.tasks[task.slot()].gpus;
    if (option_.mode == Mode::map) return option_.set_of(task.slot()).ids();
    auto [first, last] = part_of(task.slot(), slots_, dealt_.size(), host_.job().gpus_each);
    return {dealt_.begin() + static_cast<std::ptrdiff_t>(first),
            dealt_.begin() + static_cast<std::ptrdiff_t>(last)};
  }

  // Ids beyond the names are of another process than the one that has made R.
  [[nodiscard]] std::string names_of(const Gpus& gpus) const {
    std::string out;
    for (Idset::Id id : gpus) {
      if (id < named_.names.size()) out += (out.empty() ? "" : ",") + named_.names[id];
    }
    return out;
  }

  void show_share(task::Task& task) {
    if (!named_.names.empty()) {
      if (!option_.dry_run) task.command().env.set(named_.variable, names_of(gpus_of(task)));
      return;
    }
    if (is_planned() && !gpus_.empty())
      task.command().notes.push_back(fmt::format("gpus    {}", plan_.placement.tasks[task.slot()].gpus_why));
    std::string gpus = fmt::format("{}", fmt::join(gpus_of(task), ","));
    if (option_.verbose)
      log(host_, *this, Level::notice, "task {}: gpus: {}", task.rank(), gpus.empty() ? "none" : gpus);
    if (!option_.dry_run) show(task.command().env, gpus);
  }

  plugin::Host& host_;
  AffinityOption option_;
  Gpus gpus_;   // the job's on this node
  Gpus dealt_;  // those that are dealt to the tasks: the job's, and with them what it has not asked for
  std::size_t slots_ = 0;
  task::Gpus named_;   // by names, where a manager has given those
  AffinityPlan plan_;  // if is_planned()
};

}  // namespace

PluginPtr make_gpu_affinity(plugin::Host& host) { return std::make_unique<GpuAffinity>(host); }

}  // namespace nacre::plugins
