// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/own_entry.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

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

std::vector<std::string> notes_of(const job::Options& options) {
  std::vector<std::string> out;
  if (const Json* shape = options.find("pretend"); shape != nullptr && shape->is_string())
    out.push_back(fmt::format("on a made-up machine: {}", shape->get<std::string>()));
  if (const Json* events = options.find("rehearse"); events != nullptr && events->is_string())
    out.push_back(fmt::format("a rehearsal: {}", events->get<std::string>()));
  return out;
}

}  // namespace

record::JobEntry own_entry(const job::Job& job, const job::Options& options) {
  record::JobEntry entry;
  entry.version = kVersion;
  entry.id = job.id;
  entry.name = job.name();
  entry.user = ::geteuid();
  entry.pid = ::getpid();
  entry.shells = job.shells();
  entry.spares = job.spares;
  entry.started = event::wall_clock();
  entry.notes = notes_of(options);
  return entry;
}

void set_changes(record::JobEntry& entry, const job::Job& job, const value::Idset& gone) {
  const value::Idset came = job.shells_that_came();
  entry.shells = came.size();
  entry.gone = (came & gone).size();
  entry.spares = (job.spare_shells() - gone).size();
  entry.restarts = job.restarts;
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

Result<record::EntryDirectory> choose_directory(const std::vector<std::string>& places, const OnOtherPlace& other) {
  std::vector<std::string> skipped;
  auto chosen = record::EntryDirectory::choose(places, &skipped);
  for (const std::string& each : skipped) other(each);
  return chosen;
}

Result<void> put_entry(const record::JobEntry& entry, std::optional<record::EntryDirectory>& directory,
                       const std::string& first, const OnOtherPlace& other) {
  std::optional<Error> why;
  if (directory) {
    Result<void> written = directory->write(entry);
    if (written) return written;
    why = written.error();
  }
  std::vector<std::string> left = record::places(own_variable);
  std::stable_partition(left.begin(), left.end(), [&](const std::string& each) { return each == first; });
  if (directory) std::erase(left, directory->path());
  while (!left.empty()) {
    if (why) other(why->message);
    auto next = choose_directory(left, other);
    if (!next) return why ? *std::move(why) : next.error();
    Result<void> written = next->write(entry);
    if (written) {
      if (directory) static_cast<void>(directory->remove(entry.id));
      directory = *std::move(next);
      return {};
    }
    why = written.error();
    std::erase(left, next->path());
  }
  return *std::move(why);
}

}  // namespace nacre::plugins
