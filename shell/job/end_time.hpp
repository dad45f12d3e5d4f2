// SPDX-License-Identifier: Apache-2.0
//
// When the time of a job is over: by the manager that gave it its nodes (Flux by R's expiration, Slurm by a
// variable), by the jobspec, or by the option time-limit.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "job/options.hpp"
#include "job/resources.hpp"
#include "value/duration.hpp"

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

// The option `time-limit`: infinite for "none"; none: it is not set.
Result<std::optional<value::Duration>> time_limit(const Options& options);

// The earliest end of a job whose tasks start at `start` (seconds since the Epoch): R's expiration, `manager`, and
// `limit`, or else the jobspec's `duration` (seconds; 0: it has none), from the start.
std::optional<EndTime> earliest_end(const Resources& resources, const std::optional<EndTime>& manager,
                                    const std::optional<value::Duration>& limit, double duration, double start);

// What squeue(1) prints as a job's time left (%L), [DAYS-]HOURS:MINUTES:SECONDS or less, in seconds; none: it has
// no limit.
Result<std::optional<double>> parse_slurm_time_left(std::string_view text);

}  // namespace nacre::job
