// SPDX-License-Identifier: Apache-2.0
//
// cpu-affinity: binds the tasks to cpus. affinity_option.hpp has the forms of the option; job_cpus.hpp finds the
// job's cpus. `on` (the default): each task to all cores of the job on this node; `per-task`: each to its part of
// them; `map:LIST`: each to a set of cpus of its own, which need not be the job's; `off`: tasks keep the shell's
// binding.
//
// If the option is not set, and R names cores that this node does not have, as a hand-made R may, the tasks are not
// bound and a notice gives the reason. With the option set, it is an error.
#include <fmt/format.h>

#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/job_cpus.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;
using Mode = AffinityOption::Mode;

class CpuAffinity final : public plugin::Plugin {
 public:
  explicit CpuAffinity(plugin::Host& host) : Plugin("cpu-affinity"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return initialize(); });
    on("task.init", [this](plugin::Call&) {
      bind(*host_.current_task());
      return Result<void>();
    });
  }

 private:
  Result<void> initialize() {
    option_ = TRY(AffinityOption::read(host_.options().at(name())));
    if (option_.mode == Mode::off) return {};
    if (option_.mode == Mode::map) return check_map();
    Result<void> found = find_cpus();
    if (found) return {};
    const Error& error = found.error();
    if (option_.given) return Error{error.code, error.message + "; correct R, or use -o cpu-affinity=off"};
    log(host_, *this, Level::notice, "tasks are not bound: {}", error.message);
    option_.mode = Mode::off;
    return {};
  }

  Result<void> find_cpus() {
    // What a dry run prints may be about another machine.
    auto in_file = option_.dry_run ? TRY(rights_in_file(host_)) : std::nullopt;
    rights_ = in_file ? *in_file : TRY(read_cpu_rights());
    if (option_.mode == Mode::per_task) {
      cores_ = TRY(job_cores(host_, rights_));
      for (const Idset& core : cores_) all_ = all_ | core;
    } else {
      all_ = TRY(job_cpus(host_, rights_));
    }
    if (option_.verbose) log(host_, *this, Level::notice, "cpus: {}", all_.str());
    return {};
  }

  // Reduces each set to the cpus that this shell may use.
  Result<void> check_map() {
    rights_ = TRY(read_cpu_rights());
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
    if (option_.mode == Mode::map) return option_.set_of(task.local_id());
    if (option_.mode == Mode::on) return all_;
    Idset cpus;
    auto [first, last] = share_of(task.local_id(), host_.tasks().size(), cores_.size());
    for (std::size_t core = first; core < last; ++core) cpus = cpus | cores_[core];
    return cpus;
  }

  void bind(task::Task& task) {
    if (option_.mode == Mode::off) return;
    Idset cpus = cpus_of(task);
    if (option_.verbose && option_.mode != Mode::on) {
      log(host_, *this, Level::notice, "task {}: cpus: {}", task.rank(), cpus.str());
    }
    // A task inherits the shell's cpus: setting the same ones would cost it a system call.
    if (!option_.dry_run && cpus != rights_.allowed) task.command().setup.cpus = mask_of(cpus);
  }

  plugin::Host& host_;
  AffinityOption option_;
  CpuRights rights_;
  std::vector<Idset> cores_;  // per-task: the job's cores, each as its cpus
  Idset all_;                 // on, per-task: the cpus of all of them
};

}  // namespace

PluginPtr make_cpu_affinity(plugin::Host& host) { return std::make_unique<CpuAffinity>(host); }

}  // namespace nacre::plugins
