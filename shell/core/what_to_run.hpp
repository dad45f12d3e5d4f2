// SPDX-License-Identifier: Apache-2.0
//
// The job and its options, made from what all shells of the job have in common.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "boot/identity.hpp"
#include "core/shell_config.hpp"
#include "elastic/growth.hpp"
#include "job/job.hpp"
#include "job/options.hpp"

namespace nacre::core {

struct WhatToRun {
  job::Options options;
  job::Job job;
  std::string sharing;  // how many tasks share how many cores, for people; "": nothing has to be reported
};

// Takes the jobspec and the resources out of `identity`. `growth`: of a shell that joins a job that runs, all that
// have done so; else null.
Result<WhatToRun> what_to_run(boot::Identity& identity, const ShellConfig& config, const elastic::Growth* growth);

// The options of the jobspec, with those of the command line, OPT[=VAL].
Result<job::Options> merged_options(const job::Jobspec& spec, const std::vector<std::string>& arguments);

// Tasks may share cores, by the option oversubscribe, which has been read before without an error.
[[nodiscard]] bool shares_cores(const job::Options& options);

}  // namespace nacre::core
