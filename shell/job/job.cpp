// SPDX-License-Identifier: Apache-2.0
#include "job/job.hpp"

#include <fmt/format.h>

namespace nacre::job {
namespace {

void set_both(Environment& env, std::string_view name, std::string_view value) {
  env.set(fmt::format("FLUX_{}", name), value);
  env.set(fmt::format("NACRE_{}", name), value);
}

Error no_shell(std::uint32_t shell_rank, std::size_t nodes) {
  return Error{ENOENT, fmt::format("no shell rank {}: R has {} node{}", shell_rank, nodes, nodes == 1 ? "" : "s")};
}

Json number_or_unset(const std::optional<std::uint32_t>& number) { return number ? Json(*number) : Json(-1); }

}  // namespace

namespace {

// What a node offers is all that it has; what it gives to the job is what the job has asked for.
void keep_asked_gpus(const Jobspec& spec, const std::vector<NodeShare>& shares, Resources& resources) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    value::Idset& gpus = resources.nodes[i].gpus;
    std::uint64_t wanted = std::uint64_t{shares[i].slots} * spec.gpus_per_slot;
    if (wanted >= gpus.size()) continue;
    gpus = wanted == 0 ? value::Idset() : gpus & value::Idset::range(0, *gpus.nth(wanted - 1));
  }
}

}  // namespace

Result<Job> Job::create(value::JobId id, std::uint32_t shell_rank, Jobspec spec, Resources resources,
                        const std::optional<PerResource>& per_resource, bool oversubscribe) {
  if (shell_rank >= resources.nodes.size()) return no_shell(shell_rank, resources.nodes.size());
  std::vector<NodeShare> shares = TRY(distribute(spec, resources, per_resource, oversubscribe));
  if (resources.is_made && spec.gpus_per_slot > 0) keep_asked_gpus(spec, shares, resources);
  std::vector<std::uint32_t> tasks;
  tasks.reserve(shares.size());
  for (const NodeShare& share : shares) tasks.push_back(share.tasks);
  return Job{
      id, shell_rank, std::move(spec), std::move(resources), std::move(shares), value::Taskmap::block(tasks)};
}

std::string Job::name() const {
  static const Json::json_pointer path("/attributes/system/job/name");
  if (spec.document.contains(path) && spec.document[path].is_string())
    return spec.document[path].get<std::string>();
  const std::string& program = spec.command.front();
  return program.substr(program.rfind('/') + 1);
}

Json Job::jobspec_info() const {
  return {{"version", spec.version},
          {"ntasks", tasks()},
          {"nslots", spec.slots},
          {"cores_per_slot", spec.cores_per_slot},
          {"gpus_per_slot", spec.gpus_per_slot},
          {"nnodes", number_or_unset(spec.nodes)},
          {"slots_per_node", number_or_unset(spec.slots_per_node)},
          {"node_exclusive", spec.node_exclusive}};
}

Result<Json> Job::rank_info(std::uint32_t rank) const {
  if (rank >= shells()) return no_shell(rank, shells());
  const NodeResources& on = resources.nodes[rank];
  // Plugins rely on gpus being there, as "", even if there are none.
  Json ids = {{"ncores", on.cores.size()}, {"cores", on.cores.str()}, {"gpus", on.gpus.str()}};
  return Json{{"id", rank},
              {"name", on.hostname},
              {"broker_rank", on.broker_rank},
              {"ntasks", taskmap.tasks_on(rank)},
              {"taskids", taskmap.ranks_on(rank).str()},
              {"resources", std::move(ids)}};
}

std::string shell_mark(const value::JobId& id, std::uint32_t shell_rank) {
  return fmt::format("{}.{}", id.f58_plain(), shell_rank);
}

void set_job_variables(Environment& env, const Job& job, const std::string& tmpdir) {
  set_both(env, "JOB_ID", job.id.f58());
  set_both(env, "JOB_ID_PATH", "/" + job.id.f58());
  set_both(env, "JOB_SIZE", fmt::format("{}", job.tasks()));
  set_both(env, "JOB_NNODES", fmt::format("{}", job.shells()));
  env.set(kShellMark, shell_mark(job.id, job.shell_rank));
  if (!tmpdir.empty()) set_both(env, "JOB_TMPDIR", tmpdir);
}

void set_task_variables(Environment& env, std::uint64_t rank, std::uint32_t local_id) {
  set_both(env, "TASK_RANK", fmt::format("{}", rank));
  set_both(env, "TASK_LOCAL_ID", fmt::format("{}", local_id));
}

}  // namespace nacre::job
