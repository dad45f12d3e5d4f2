// SPDX-License-Identifier: Apache-2.0
//
// cpu-affinity: binds the tasks to cpus. affinity_option.hpp has the forms of the option; job_cpus.hpp finds the
// job's cpus. `on` (the default): each task to all cores of the job on this node; `per-task`, `per-task:LEVEL`:
// each to its part of them, as placement.hpp has it, or to as many as it has asked for (Job::cores_each);
// `map:LIST`: each to a set of cpus of its own, which need not
// be the job's; `off`: tasks keep the shell's binding.
//
// The plan of all tasks, with the memory, gpus and network cards that other options ask for, is made here, and
// other plugins get it by the topic `affinity.plan` (affinity_plan.hpp).
//
// On a made-up machine (-o pretend) the tasks are planned, and not bound.
//
// If the option is not set, and R names cores that this node does not have, as a hand-made R may, the tasks are
// not bound and a notice gives the reason. With the option set, it is an error.
#include <fmt/format.h>

#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/affinity_plan.hpp"
#include "plugins/affinity/job_cpus.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;
using Mode = AffinityOption::Mode;

class CpuAffinity final : public plugin::Plugin {
 public:
  explicit CpuAffinity(plugin::Host& host) : Plugin("cpu-affinity"), host_(host) {
    on("shell.init", [this] { return initialize(); });
    on("task.init", [this] { bind(*host_.current_task()); });
    on("shell.take-over", [this] {
      plan_.reset();
      request_.cpus.clear();
      return option_.mode == Mode::per_task ? make_plan() : Result<void>();
    });
    on("affinity.plan", [this](plugin::Call& call) -> Result<void> {
      if (!plan_) CHECK_OK(make_plan());
      call.out = to_json(*plan_);
      return {};
    });
  }

 private:
  Result<void> initialize() {
    option_ = TRY(AffinityOption::read(host_.options().at(name()), AffinityOption::Resource::cpus));
    is_pretended_ = TRY(pretended_machine(host_.options())).has_value();
    if (option_.mode == Mode::off) return {};
    if (option_.mode == Mode::map) return check_map();
    if (option_.mode == Mode::per_task) {
      CHECK_OK(find_rights());
      CHECK_OK(find_node());
    }
    Result<void> found = find_cpus();
    if (found) return option_.mode == Mode::per_task ? make_plan() : Result<void>();
    const Error& error = found.error();
    if (option_.given) return Error{error.code, error.message + "; correct R, or use -o cpu-affinity=off"};
    log(host_, *this, Level::notice, "tasks are not bound: {}", error.message);
    option_.mode = Mode::off;
    return {};
  }

  Result<void> find_cpus() {
    if (option_.mode == Mode::per_task) {
      cores_ = TRY(pick_cores(host_.job().node().all_cores(), node_->cpus.cores, rights_));
      for (const Idset& core : cores_) all_ = all_ | core;
    } else {
      CHECK_OK(find_rights());
      all_ = TRY(job_cpus(host_, rights_));
    }
    if (option_.verbose && (option_.mode != Mode::per_task || host_.job().cores_each == 0))
      log(host_, *this, Level::notice, "cpus: {}", all_.str());
    return {};
  }

  // What a dry run prints may be about another machine.
  Result<void> find_rights() {
    auto in_file = option_.dry_run ? TRY(rights_in_file(host_)) : std::nullopt;
    rights_ = in_file ? *in_file : TRY(node_rights(host_));
    return {};
  }

  Result<void> find_node() {
    request_.memory = TRY(read_mem_affinity(host_.options().at("mem-affinity"))) != "off";
    request_.nics = TRY(read_nic_affinity(host_.options().at("nic-affinity"))) == "closest";
    auto gpus = TRY(AffinityOption::read(host_.options().at("gpu-affinity"), AffinityOption::Resource::gpus));
    request_.gpus_each = host_.job().gpus_each;
    const job::NodeResources& own = host_.job().node();
    request_.gpu_ids = (request_.gpus_each > 0 ? own.all_gpus() : own.gpus).ids();
    const bool closest = gpus.mode == Mode::closest && !request_.gpu_ids.empty();
    const bool prefers = gpus.mode == Mode::prefer_closest && !request_.gpu_ids.empty();
    const bool has_names = prefers && have_only_names(host_);
    // A card is to be near to a task's own gpus, too.
    if (closest) request_.gpus = PlacementRequest::Gpus::closest;
    if (prefers && !has_names) request_.gpus = PlacementRequest::Gpus::prefer_closest;
    if ((gpus.mode == Mode::per_task || has_names) && request_.nics) request_.gpus = PlacementRequest::Gpus::evenly;
    node_ = TRY(read_node(host_, rights_, closest || request_.nics));
    if (prefers && !has_names && node_->has_parts() && node_->gpus.empty()) find_gpus();
    return {};
  }

  // Where they are: if it can't be told, the node stays as it is.
  void find_gpus() {
    if (auto node = read_node(host_, rights_, true))
      node_ = *std::move(node);
    else
      log(host_, *this, Level::debug, "where gpus are is not known: {}", node.error().message);
  }

  // Once it is known which cpus the tasks have, unless the plan is to decide that.
  Result<void> make_plan() {
    if (option_.mode == Mode::off) CHECK_OK(find_rights());
    if (!node_) CHECK_OK(find_node());
    request_.tasks = TRY(job::tasks_at_once(host_.options(), host_.job(), host_.tasks().size()));
    request_.level = option_.level;
    if (option_.mode == Mode::per_task) {
      request_.cores = cores_;
      if (option_.level == CpuLevel::core) request_.cpus_each = host_.job().cores_each;
    } else {
      for (const auto& task : host_.tasks().first(request_.tasks)) request_.cpus.push_back(cpus_of(*task));
      request_.cpus_why = option_.mode == Mode::map  ? "as the map has it"
                          : option_.mode == Mode::on ? "all that the job has"
                                                     : "all that the shell may use";
    }
    plan_ = AffinityPlan{TRY(place(*node_, request_)), option_.dry_run};
    choose_cores();
    if (const Idset& unused = plan_->placement.unused; !unused.empty() && option_.verbose)
      log(host_, *this, Level::notice, "cpus of no task: {}, as the shares of others would span several sets",
          unused.str());
    return {};
  }

  // What the tasks have got is the job's, of all that the node offers.
  void choose_cores() {
    const Idset all = host_.job().node().all_cores();
    if (plan_->placement.used.empty() || all.size() != cores_.size()) return;  // some may not be used here
    const std::vector<Idset::Id> ids = all.ids();
    Idset chosen, cpus;
    for (std::size_t unit : plan_->placement.used) {
      chosen.insert(ids[unit]);
      cpus = cpus | cores_[unit];
    }
    host_.choose_cores(chosen);
    if (option_.verbose) log(host_, *this, Level::notice, "cpus: {}", cpus.str());
  }

  // Reduces each set to the cpus that this shell may use.
  Result<void> check_map() {
    rights_ = TRY(node_rights(host_));
    for (Idset& cpus : option_.map) {
      Idset wanted = cpus;
      // "4-" means 4 and all above
      if (wanted.last() == kMaxAffinityId) wanted = wanted & rights_.online;
      if (Idset missing = wanted - rights_.online; !missing.empty() || wanted.empty()) {
        return invalid(fmt::format("{}: map: this node has cpus {}, not {}", name(), rights_.online.str(),
                                   (missing.empty() ? cpus : missing).str()));
      }
      cpus = wanted & rights_.allowed;
      if (cpus == wanted) continue;
      if (cpus.empty()) {
        return invalid(fmt::format("{}: map: cpus {} are denied to this shell, which may use {}", name(),
                                   wanted.str(), rights_.allowed.str()));
      }
      log(host_, *this, Level::warn, "map: of cpus {} this shell may use {} only", wanted.str(), cpus.str());
    }
    return {};
  }

  [[nodiscard]] Idset cpus_of(const task::Task& task) {
    if (option_.mode == Mode::map) return option_.set_of(task.slot());
    if (option_.mode == Mode::on) return all_;
    if (option_.mode == Mode::off) return rights_.allowed;
    return plan_->placement.tasks[task.slot()].cpus;
  }

  void bind(task::Task& task) {
    if (plan_) note(task);
    task.command().setup.is_pretended = is_pretended_;
    if (option_.mode == Mode::off) return;
    Idset cpus = cpus_of(task);
    if (option_.verbose && option_.mode != Mode::on) {
      log(host_, *this, Level::notice, "task {}: cpus: {}", task.rank(), cpus.str());
    }
    // A task inherits the shell's cpus: setting the same ones would cost it a system call.
    if (!option_.dry_run && cpus != rights_.allowed) task.command().setup.cpus = mask_of(cpus);
  }

  void note(task::Task& task) {
    std::vector<std::string>& notes = task.command().notes;
    notes.push_back(fmt::format("cpus    {}", plan_->placement.tasks[task.slot()].cpus_why));
    if (const Idset& unused = plan_->placement.unused; !unused.empty())
      notes.push_back(
          fmt::format("cpus    {} of the job have no task, as its share would span several sets", unused.str()));
  }

  plugin::Host& host_;
  AffinityOption option_;
  bool is_pretended_ = false;
  CpuRights rights_;
  std::vector<Idset> cores_;  // per-task: the job's cores, each as its cpus
  Idset all_;                 // on, per-task: the cpus of all of them
  std::optional<NodeTopology> node_;
  PlacementRequest request_;
  std::optional<AffinityPlan> plan_;
};

}  // namespace

PluginPtr make_cpu_affinity(plugin::Host& host) { return std::make_unique<CpuAffinity>(host); }

}  // namespace nacre::plugins
