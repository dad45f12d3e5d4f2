// SPDX-License-Identifier: Apache-2.0
//
// Chooses the exit policy by the job's options and variables; see nacre-exits(7).
#pragma once

#include "base/log.hpp"
#include "base/result.hpp"
#include "exits/policy.hpp"
#include "job/environment.hpp"
#include "job/job.hpp"
#include "job/options.hpp"

namespace nacre::core {

// From exit-policy, exit-main and exit-ok. Without exit-main, if BACKENDAI_CLUSTER_ROLE is "main" the main rank is
// the first task on the host BACKENDAI_CLUSTER_HOST; the variables are the job's, or else this process's. If that
// host is none of the job's, or has no task, this warns. `job` has its final taskmap.
Result<exits::Policy> chosen_exit_policy(const job::Options& options, const job::Job& job,
                                         const job::Environment& environment, Log& log);

}  // namespace nacre::core
