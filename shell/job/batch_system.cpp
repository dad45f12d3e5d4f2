// SPDX-License-Identifier: Apache-2.0
#include "job/batch_system.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::job {
namespace {

using Kind = BatchSystem::Kind;

struct Known {
  const char* variable;  // has the job's id
  Kind kind;
  const char* name;
};
constexpr Known kKnown[] = {
    {"FLUX_ENCLOSING_ID", Kind::other, "Flux"},  // an instance, which may be in an allocation of others
    {"SLURM_JOB_ID", Kind::slurm, "Slurm"},
    {"PBS_JOBID", Kind::pbs, "PBS"},
    {"LSB_JOBID", Kind::lsf, "LSF"},
    {"FLUX_JOB_ID", Kind::other, "Flux"},
    {"OAR_JOB_ID", Kind::other, "OAR"},
    {"COBALT_JOBID", Kind::other, "Cobalt"},
    {"PE_HOSTFILE", Kind::other, "Grid Engine"},
};

constexpr std::uint64_t kMostStep = 0xffffffef;  // those above are no steps of srun, but batch scripts and the like

// Makes the job smaller. $1: the job, the others: the hosts that leave. scontrol leaves scripts in its directory,
// for those who want the new size in the environment.
constexpr const char* kSlurmRelease = R"sh(job=$1; shift
facts=$(scontrol -o show job "$job" | tr ' ' '\n') || exit
field() { printf '%s\n' "$facts" | sed -n "s/^$1=//p"; }
batch=$(field BatchHost)
if [ "$(field BatchFlag)" != 0 ] && printf '%s\n' "$@" | grep -qxF "$batch"; then
  echo "the batch script runs on $batch" >&2; exit 1
fi
nodes=$(scontrol show hostnames "$(field NodeList)") || exit
keep=$(printf '%s\n' "$nodes" | grep -vxF "$(printf '%s\n' "$@")" | paste -sd, -)
if [ "$keep" = "$(printf '%s\n' "$nodes" | paste -sd, -)" ]; then
  echo "none of them is of the allocation" >&2; exit 1
fi
folder=$(mktemp -d) && cd "$folder" || exit
scontrol update "JobId=$job" "NodeList=$keep"; code=$?
rm -f slurm_job_*_resize.sh slurm_job_*_resize.csh; cd / && rmdir "$folder"
exit $code)sh";

}  // namespace

BatchSystem BatchSystem::of_environment(const Variable& variable) {
  BatchSystem out;
  for (const Known& each : kKnown) {
    auto job = variable(each.variable);
    if (!job || job->empty()) continue;
    out.kind = each.kind;
    out.name = each.name;
    out.job = *std::move(job);
    auto step = parse_u64(variable("SLURM_STEP_ID").value_or(""));
    bool is_step = out.kind == Kind::slurm && step && *step <= kMostStep;
    out.ends_with_a_node = is_step && !variable(kStepSurvives);
    break;
  }
  return out;
}

BatchSystem BatchSystem::of_command(std::string text) {
  BatchSystem out;
  out.kind = Kind::command;
  out.name = std::move(text);
  return out;
}

std::optional<std::string> BatchSystem::obstacle() const {
  if (ends_with_a_node)
    return "Slurm would end all shells with it, as srun was not given --no-kill: it stays idle until the job ends";
  if (kind != Kind::other) return std::nullopt;
  return fmt::format("nacre does not give single hosts back to {}: it stays idle until the job ends", name);
}

BatchSystem::Command BatchSystem::release(const value::Hostlist& hosts) const {
  std::vector<std::string> names = hosts.names();
  Command out;
  if (kind == Kind::lsf) out.argv = {"bresize", "release", fmt::format("{}", fmt::join(names, " ")), job};
  if (kind == Kind::pbs) out.argv = {"pbs_release_nodes", "-j", job};
  if (kind == Kind::command) out.argv = {"/bin/sh", "-c", name, "elastic.manager"};
  if (kind == Kind::slurm) out.argv = {"/bin/sh", "-c", kSlurmRelease, "elastic.manager", job};
  if (kind != Kind::lsf) out.argv.insert(out.argv.end(), names.begin(), names.end());
  out.name = kind == Kind::slurm ? fmt::format("scontrol update JobId={} without {}", job, hosts.str())
                                 : fmt::format("{}", fmt::join(out.argv, " "));
  return out;
}

std::vector<std::pair<std::string, std::string>> flux_variables(const value::JobId& job,
                                                                const BatchSystem::Variable& variable) {
  auto id = value::JobId::parse(variable("FLUX_JOB_ID").value_or(""));
  if (!id || id->value() != job.value()) return {};
  std::vector<std::pair<std::string, std::string>> out;
  for (const char* name : {"FLUX_URI", "FLUX_KVS_NAMESPACE", "FLUX_JOB_ID_PATH"}) {
    auto value = variable(name);
    if (!value) return {};  // nacre's own jobs have no namespace
    out.emplace_back(name, *std::move(value));
  }
  return out;
}

Json release_outcome(std::string_view name, const value::Hostlist& hosts, const Result<std::string>& released) {
  Json out{{"name", name}, {"hosts", hosts.str()}, {"released", released.has_value()}};
  if (!released) out["error"] = released.error().message;
  return out;
}

}  // namespace nacre::job
