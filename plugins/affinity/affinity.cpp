// SPDX-License-Identifier: Apache-2.0
//
// cpu-affinity: binds the tasks to cpus. affinity_option.hpp has the forms of the option; job_cpus.hpp finds the
// job's cpus. `on` (the default): each task to all cores of the job on this node; `per-task`, `per-task:LEVEL`:
// each to its part of them, as placement.hpp has it, or to as many as it has asked for (Job::cores_each);
// `map:LIST`: each to a set of cpus of its own, which need not be the job's; `off`: tasks keep the shell's binding.
//
// The plan of all tasks, with the memory, gpus and network cards that other options ask for, is made here, and
// other plugins get it by the topic `affinity.plan` (affinity.hpp).
//
// On a made-up machine (-o pretend) the tasks are planned, and not bound.
//
// If the option is not set, and R names cores that this node does not have, as a hand-made R may, the tasks are
// not bound and a notice gives the reason. With the option set, it is an error.
#include "plugins/affinity/affinity.hpp"

#include "base/program.hpp"
#include "job/job.hpp"
#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/job_cpus.hpp"
#include "plugins/builtins.hpp"
#include "task/cpus.hpp"
#include "task/gpus.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {

void fields(auto& io, wire::Of<PlacedTask> auto& m) {
  io.has("cpus", m.cpus);
  io.has("memory", m.memory);
  io.has("gpus", m.gpus, wire::Each{wire::Between{0, value::Idset::kMaxId}});
  io.has("nics", m.nics);
  io.has("why", m, wire::Object{[](auto& why, auto& of) {
           why.has("cpus", of.cpus_why);
           why.has("memory", of.memory_why);
           why.has("gpus", of.gpus_why);
           why.has("nics", of.nics_why);
         }});
}

void fields(auto& io, wire::Of<AffinityPlan> auto& m) {
  io.has("tasks", m.placement.tasks);
  io.has("unused", m.placement.unused);
  io.has("dry-run", m.is_dry_run);
}

Json to_json(const AffinityPlan& plan) { return wire::to_json(plan); }

bool have_only_names(const plugin::Host& host) {
  return host.job().resources.is_made && !task::find_gpus(own_variable).names.empty();
}

Result<AffinityPlan> ask_for_plan(plugin::Host& host, std::string_view option) {
  plugin::Call call("affinity.plan");
  if (TRY(host.stack().call(call)) == 0) {
    return Error{
        ENOENT,
        fmt::format("{}: no plugin answers to affinity.plan, as the builtin plugin cpu-affinity does", option)};
  }
  JsonAt json = JsonAt::root(call.out, "affinity.plan");
  auto out = TRY(wire::from_json<AffinityPlan>(json));
  const std::size_t slots = TRY(job::tasks_at_once(host.options(), host.job(), host.tasks().size()));
  if (out.placement.tasks.size() != slots)
    return json.error(fmt::format("it has {} tasks, not {}", out.placement.tasks.size(), slots));
  return out;
}

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
    // A card should also be near to a task's own gpus.
    if (closest) request_.gpus = PlacementRequest::Gpus::closest;
    if (prefers && !has_names) request_.gpus = PlacementRequest::Gpus::prefer_closest;
    if ((gpus.mode == Mode::per_task || has_names) && request_.nics) request_.gpus = PlacementRequest::Gpus::evenly;
    node_ = TRY(read_node(host_, rights_, closest || request_.nics));
    if (prefers && !has_names && node_->has_parts() && node_->gpus.empty()) find_gpus();
    return {};
  }

  // Finds where they are; if that cannot be told the node stays as it is.
  void find_gpus() {
    if (auto node = read_node(host_, rights_, true))
      node_ = *std::move(node);
    else
      log(host_, *this, Level::debug, "where gpus are is not known: {}", node.error().message);
  }

  // Called once it is known which cpus the tasks have, unless the plan decides that.
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

  // The cores that the tasks have got are the job's, of all that the node offers.
  void choose_cores() {
    const Idset all = host_.job().node().all_cores();
    if (plan_->placement.used.empty() || all.size() != cores_.size()) return;  // some cores may not be usable here
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
      // "4-" means 4 and all above.
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
  Idset all_;                 // on, per-task: all cpus of these cores
  std::optional<NodeTopology> node_;
  PlacementRequest request_;
  std::optional<AffinityPlan> plan_;
};

}  // namespace

PluginPtr make_cpu_affinity(plugin::Host& host) { return std::make_unique<CpuAffinity>(host); }

// mem-affinity: where the tasks' memory comes from, by a memory policy that each task has before it executes.
//
//   bind         from the NUMA nodes of the task's cpus only
//   prefer       from these as long as they have some
//   interleave   page by page from each of these
//   off          as inherited; the default
//
// The plan of cpu-affinity has these cpus, and the nodes that belong to them (affinity.hpp). If the kernel refuses,
// the start of the task fails with the policy in the message.
namespace {

class MemAffinity final : public plugin::Plugin {
 public:
  explicit MemAffinity(plugin::Host& host) : Plugin("mem-affinity"), host_(host) {
    for (const char* topic : {"shell.init", "shell.take-over"}) on(topic, [this] { return initialize(); });
    on("task.init", [this] {
      if (policy_ != "off") set(*host_.current_task());
    });
  }

 private:
  Result<void> initialize() {
    policy_ = TRY(read_mem_affinity(host_.options().at(name())));
    if (policy_ != "off") plan_ = TRY(ask_for_plan(host_, name()));
    return {};
  }

  void set(task::Task& task) {
    const PlacedTask& placed = plan_.placement.tasks[task.slot()];
    task.command().notes.push_back(fmt::format("memory  {}", placed.memory_why));
    // In a dry run the nodes may be another machine's.
    if (!plan_.is_dry_run) task.command().setup.memory = task::memory_policy(policy_, placed.memory);
  }

  plugin::Host& host_;
  std::string policy_ = "off";
  AffinityPlan plan_;
};

}  // namespace

PluginPtr make_mem_affinity(plugin::Host& host) { return std::make_unique<MemAffinity>(host); }

// gpu-affinity: restricts each task to its gpus, by the variables that the vendors' libraries read.
// affinity_option.hpp has the forms of the option. `on` (the default): all gpus of the job on this node;
// `per-task`: each task gets its part of them; `closest`: each task gets those near its cpus, by the plan of
// cpu-affinity (affinity.hpp); `prefer-closest`: as `closest` if the node tells where its gpus are, otherwise as
// `per-task`; `map:LIST`: each task gets a set of its own, which need not be the job's; `off`: the environment is
// not changed.
//
//   CUDA_VISIBLE_DEVICES  NVIDIA; "-1" for none. With CUDA_DEVICE_ORDER=PCI_BUS_ID, so that ids mean the same as in
//                         R.
//   HIP_VISIBLE_DEVICES   AMD; "-1" for none
//   ZE_AFFINITY_MASK      Intel; cannot express none, and is unset then
//
// ROCR_VISIBLE_DEVICES is also AMD's, one layer below: HIP would only number the gpus that it leaves. So it is
// unset.
//
// If nobody has given an R and no gpus were found, all of them are left alone. If nobody has given an R and a
// manager has given names, as of MIG devices, the variable with the names shows each task its part of them; the
// others are left alone.

namespace {

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

  // Each task gets as many as it has asked for, out of all that the node offers; the chosen ones are the job's
  // then.
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

  // Ids beyond the names come from another process than the one that has made R.
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
  Gpus dealt_;  // the gpus that are given to tasks: the job's, and others that it has not asked for
  std::size_t slots_ = 0;
  task::Gpus named_;   // gpus by name, if a manager has given names
  AffinityPlan plan_;  // if is_planned()
};

}  // namespace

PluginPtr make_gpu_affinity(plugin::Host& host) { return std::make_unique<GpuAffinity>(host); }

// nic-affinity: the network cards near a task's cpus are named in its environment.
//
//   closest   NACRE_NICS in the task's environment: names, joined by commas, as "mlx5_0:1" for a port of an RDMA
//             device, or "eth0" for a network interface where there are no RDMA devices
//   off       nothing is set; the default
//
// The cards are in the plan of cpu-affinity (affinity.hpp). What the libraries of the tasks read is set by
// lua.d/nic-affinity.lua, which a site may change.
namespace {

class NicAffinity final : public plugin::Plugin {
 public:
  explicit NicAffinity(plugin::Host& host) : Plugin("nic-affinity"), host_(host) {
    for (const char* topic : {"shell.init", "shell.take-over"}) on(topic, [this] { return initialize(); });
    on("task.init", [this] {
      if (is_closest_) set(*host_.current_task());
    });
  }

 private:
  Result<void> initialize() {
    is_closest_ = TRY(read_nic_affinity(host_.options().at(name()))) == "closest";
    if (is_closest_) plan_ = TRY(ask_for_plan(host_, name()));
    return {};
  }

  void set(task::Task& task) {
    const PlacedTask& placed = plan_.placement.tasks[task.slot()];
    task.command().notes.push_back(fmt::format("nics    {}", placed.nics_why));
    task.command().env.set("NACRE_NICS", fmt::format("{}", fmt::join(placed.nics, ",")));
  }

  plugin::Host& host_;
  bool is_closest_ = false;
  AffinityPlan plan_;
};

}  // namespace

PluginPtr make_nic_affinity(plugin::Host& host) { return std::make_unique<NicAffinity>(host); }

}  // namespace nacre::plugins
