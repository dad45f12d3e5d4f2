// SPDX-License-Identifier: Apache-2.0
#include "core/what_to_run.hpp"

#include <cstdlib>
#include <optional>

#include "plugins/builtins.hpp"

namespace nacre::core {
namespace {

Result<std::optional<job::PerResource>> per_resource(const job::Options& options) {
  const Json* option = options.find("per-resource");
  if (option == nullptr) return std::optional<job::PerResource>();
  return std::optional<job::PerResource>(TRY(job::PerResource::from_json(*option)));
}

Result<job::Oversubscribe> oversubscription(const job::Options& options) {
  auto option = options.at("oversubscribe");
  if (!option) return job::Oversubscribe::no;
  return job::oversubscribe_of(*option);
}

}  // namespace

bool shares_cores(const job::Options& options) {
  return oversubscription(options).value_or(job::Oversubscribe::no) != job::Oversubscribe::no;
}

Result<job::Options> merged_options(const job::Jobspec& spec, const std::vector<std::string>& arguments) {
  job::Options options(spec.options);
  for (const std::string& each : arguments) CHECK_OK(in("-o " + each, options.set_from_argument(each)));
  return options;
}

Result<WhatToRun> what_to_run(boot::Identity& identity, const ShellConfig& config, const elastic::Growth* growth) {
  job::Options options = TRY(merged_options(identity.spec, config.options));
  auto spread = TRY(per_resource(options));
  auto oversubscribe = TRY(oversubscription(options));
  auto spares = TRY(job::spares_of(options));
  job::Job job =
      TRY(job::Job::create(identity.id, growth == nullptr ? identity.shell_rank : 0, std::move(identity.spec),
                           std::move(identity.resources), spread, oversubscribe != job::Oversubscribe::no, spares));
  // Who has given an R has taken what the job asks for; what nodes offer, or a made-up machine has, is all of them.
  if (job.resources.is_made || options.find("pretend") != nullptr)
    job.take_what_was_asked(
        !spread && oversubscribe != job::Oversubscribe::share && plugins::binds_to_own_cores(options),
        oversubscribe != job::Oversubscribe::no);
  if (growth != nullptr) {
    std::vector<job::NodeResources> nodes;
    for (const elastic::Growth::Shell& each : growth->shells)
      nodes.push_back({0, each.hostname, each.cores, each.gpus, {}});
    job.grow(std::move(nodes));
    job.shell_rank = identity.shell_rank;
  }
  if (::getenv("FLUX_F58_FORCE_ASCII") != nullptr) job.has_ascii_id = true;
  std::string sharing;
  bool reports = oversubscribe == job::Oversubscribe::yes ||
                 (oversubscribe == job::Oversubscribe::share && config.at_terminal);
  if (reports && identity.shell_rank == 0) sharing = job::sharing_text(job.spec, job.resources, job.shares);
  return WhatToRun{std::move(options), std::move(job), std::move(sharing)};
}

}  // namespace nacre::core
