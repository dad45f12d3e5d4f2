// SPDX-License-Identifier: Apache-2.0
//
// When the time of a job is over, according to the manager that gave it its nodes: Flux by R's expiration, Slurm by
// a variable.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "job/resources.hpp"

namespace nacre::job {

struct EndTime {
  double at;         // seconds since the Epoch
  std::string over;  // the message when it is over: "R has expired"
};

// The value of an environment variable; none: it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;

// SLURM_JOB_END_TIME; none: it is not set, or 0. The other managers give at most the length of the job, but not its
// start. EINVAL: it is no number of seconds since the Epoch.
Result<std::optional<EndTime>> manager_end(const Variables& variables);

// R's expiration, or else manager_end().
Result<std::optional<EndTime>> end_time(const Resources& resources, const Variables& variables);

}  // namespace nacre::job
