// SPDX-License-Identifier: Apache-2.0
//
// slurm-variables: tasks of a job in an allocation of Slurm, whose environment has SLURM_JOB_ID, get the variables
// that srun sets for the tasks of a step (srun(1), OUTPUT ENVIRONMENT VARIABLES). JAX, TensorFlow, Lightning and
// submitit take a rank, a number of tasks and a list of hosts from them, and go wrong if only those of the
// allocation are set.
//
// SLURM_STEP_ID is not set: there is no step, and Slurm's own programs would look for it. SLURM_TASKS_PER_NODE goes
// with SLURM_JOB_NODELIST, and stays the allocation's.

#include "job/options.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

// As Slurm writes numbers of tasks: "4(x3),2".
std::string in_runs(const std::vector<std::uint32_t>& counts) {
  std::string out;
  for (auto from = counts.begin(); from != counts.end();) {
    auto to = std::find_if(from, counts.end(), [&](std::uint32_t each) { return each != *from; });
    out += fmt::format("{}{}", out.empty() ? "" : ",", *from);
    if (to - from > 1) out += fmt::format("(x{})", to - from);
    from = to;
  }
  return out;
}

class SlurmVariables final : public plugin::Plugin {
 public:
  explicit SlurmVariables(plugin::Host& host) : Plugin("slurm-variables"), host_(host) {
    on("shell.init", [this] { return initialize(); });
    on("shell.take-over", [this] { return initialize(); });  // for tasks that have come
    on("job.resized", [this] { return initialize(); });
    on("task.init", [this] {
      if (is_on_) number(*host_.current_task());
    });
  }

 private:
  Result<void> initialize() {
    auto option = host_.options().at(name());
    is_on_ = host_.environment().get("SLURM_JOB_ID") && (!option || TRY(job::switch_of(*option)));
    if (!is_on_) return {};
    const job::Job& job = host_.job();
    value::Hostlist hosts;
    std::vector<std::uint32_t> counts;
    for (std::uint32_t node = 0; node < job.shells(); ++node) {
      std::uint32_t count = job.taskmap.tasks_on(node);
      if (count == 0) continue;
      if (node == job.shell_rank) node_ = counts.size();
      hosts.append(job.resources.nodes[node].hostname);
      counts.push_back(count);
    }
    job::Environment& environment = host_.environment();
    for (const char* each : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"})
      environment.set(each, fmt::format("{}", job.tasks()));
    environment.set("SLURM_STEP_TASKS_PER_NODE", in_runs(counts));
    // The numbers that sbatch was asked for may not be those of this job.
    if (std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end())
      environment.set("SLURM_NTASKS_PER_NODE", fmt::format("{}", counts[0]));
    else
      environment.unset("SLURM_NTASKS_PER_NODE");
    environment.set("SLURM_STEP_NUM_NODES", fmt::format("{}", counts.size()));
    environment.set("SLURM_STEP_NODELIST", hosts.str());
    environment.set("SLURM_NODEID", fmt::format("{}", node_));
    std::string ranks;
    for (value::Idset::Id each : job.taskmap.ranks_on(job.shell_rank).ids())
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", each);
    environment.set("SLURM_GTIDS", ranks);
    return {};
  }

  static void number(task::Task& task) {
    job::Environment& environment = task.command().env;
    environment.set("SLURM_PROCID", fmt::format("{}", task.rank()));
    environment.set("SLURM_LOCALID", fmt::format("{}", task.local_id()));
  }

  plugin::Host& host_;
  bool is_on_ = false;
  std::size_t node_ = 0;  // this node's number among those with tasks
};

}  // namespace

PluginPtr make_slurm_variables(plugin::Host& host) { return std::make_unique<SlurmVariables>(host); }

}  // namespace nacre::plugins
