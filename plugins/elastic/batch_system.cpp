// SPDX-License-Identifier: Apache-2.0
#include "plugins/elastic/batch_system.hpp"

#include <fmt/format.h>

namespace nacre::plugins {
namespace {

using Kind = BatchSystem::Kind;

struct Known {
  const char* variable;  // has the job's id
  Kind kind;
  const char* name;
};
constexpr Known kKnown[] = {
    {"SLURM_JOB_ID", Kind::other, "Slurm"},
    {"PBS_JOBID", Kind::pbs, "PBS"},
    {"LSB_JOBID", Kind::lsf, "LSF"},
    {"FLUX_JOB_ID", Kind::other, "Flux"},
    {"OAR_JOB_ID", Kind::other, "OAR"},
    {"COBALT_JOBID", Kind::other, "Cobalt"},
    {"PE_HOSTFILE", Kind::other, "Grid Engine"},
};

}  // namespace

BatchSystem BatchSystem::of_environment(const Variable& variable) {
  BatchSystem out;
  for (const Known& each : kKnown) {
    auto job = variable(each.variable);
    if (!job || job->empty()) continue;
    out.kind = each.kind;
    out.name = each.name;
    out.job = *std::move(job);
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
  if (kind != Kind::other) return std::nullopt;
  return fmt::format("nacre does not give single hosts back to {}: it stays idle until the job ends", name);
}

std::vector<std::string> BatchSystem::release(const value::Hostlist& hosts) const {
  std::vector<std::string> names = hosts.names();
  std::vector<std::string> out;
  if (kind == Kind::lsf) return {"bresize", "release", fmt::format("{}", fmt::join(names, " ")), job};
  if (kind == Kind::pbs) out = {"pbs_release_nodes", "-j", job};
  if (kind == Kind::command) out = {"/bin/sh", "-c", name, "elastic.manager"};
  out.insert(out.end(), names.begin(), names.end());
  return out;
}

}  // namespace nacre::plugins
