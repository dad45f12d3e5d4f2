// SPDX-License-Identifier: Apache-2.0
//
// How the job's options and variables choose its exit policy; see nacre-exits(7).
#pragma once

#include "base/log.hpp"
#include "base/result.hpp"
#include "exits/policy.hpp"
#include "job/environment.hpp"
#include "job/job.hpp"
#include "job/options.hpp"

namespace nacre::core {

// exit-policy, exit-main and exit-ok. Without exit-main the main rank is the first task on the host that BACKENDAI_CLUSTER_HOST names,
// where BACKENDAI_CLUSTER_ROLE is "main": in the job's environment, or else this process's. A host that is none of the job's, or has
// no task, is a warning. `job` has its final taskmap.
Result<exits::Policy> chosen_exit_policy(const job::Options& options, const job::Job& job,
                                         const job::Environment& environment, Log& log);

}  // namespace nacre::core
