// SPDX-License-Identifier: Apache-2.0
//
// When the time of a job is over, as those say who have given it its nodes: Flux by R's expiration, Slurm by a variable.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "job/resources.hpp"

namespace nacre::job {

struct EndTime {
  double at;         // seconds since the Epoch
  std::string over;  // for people, once it is: "R has expired"
};

// A variable of the environment; none: it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;

// SLURM_JOB_END_TIME; none: it is not set, or 0. The other managers tell a job at most how long it may take, and not since when.
// EINVAL: no number of seconds since the Epoch.
Result<std::optional<EndTime>> manager_end(const Variables& variables);

// R's expiration, or else manager_end().
Result<std::optional<EndTime>> end_time(const Resources& resources, const Variables& variables);

}  // namespace nacre::job
