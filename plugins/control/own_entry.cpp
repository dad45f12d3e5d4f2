// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/own_entry.hpp"

#include <unistd.h>

#include <filesystem>

#include "base/variable.hpp"
#include "event/clock.hpp"
#include "record/list.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

record::Manager manager_of_shells() {
  auto variable = [](const char* name) { return own_variable(name).value_or(""); };
  if (own_variable("SLURM_JOB_ID") && own_variable("SLURM_STEP_ID"))
    return {"slurm", variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID")};
  if (own_variable("FLUX_JOB_ID")) return {"flux", variable("FLUX_JOB_ID"), ""};
  return {};
}

}  // namespace

record::JobEntry own_entry(const job::Job& job) {
  record::JobEntry entry;
  entry.version = kVersion;
  entry.id = job.id;
  entry.name = job.name();
  entry.user = ::geteuid();
  entry.pid = ::getpid();
  entry.shells = job.shells();
  entry.started = event::wall_clock();
  return entry;
}

void complete_entry(record::JobEntry& entry, const job::Job& job) {
  if (entry.pid_start != 0) return;
  entry.place = record::own_place();
  entry.pid_start = record::start_of(entry.pid).value_or(0);
  entry.manager = manager_of_shells();
  entry.tasks = job.tasks();
  entry.command = job.spec.command;
  std::error_code failed;
  entry.cwd = job.spec.cwd.value_or(std::filesystem::current_path(failed).native());
}

}  // namespace nacre::plugins
