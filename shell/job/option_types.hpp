// SPDX-License-Identifier: Apache-2.0
//
// Types that several options of the shell share (nacre-shell-options(7), "Values"). Each function reads one option;
// an error names the option and what was expected. Arrays and numbers are accepted where the command line makes one
// of the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "job/options.hpp"
#include "value/duration.hpp"
#include "value/idset.hpp"

namespace nacre::job {

// A time: a number of seconds, or text in Flux Standard Duration (RFC 23). Not negative; may be infinite.
Result<value::Duration> seconds_option(const JsonAt& option);

// A number of bytes: a number, or text with a unit, "10M". k, M, G, T, in either case, are powers of 1024, as in
// flux-shell-options(7).
Result<std::uint64_t> size_option(const JsonAt& option);

// Ranks of tasks: "all" (none), an idset (RFC 22), a rank, or an array of ranks.
Result<std::optional<value::Idset>> ranks_option(const JsonAt& option);
// The same, for a job that has so many tasks: others are an error.
Result<std::optional<value::Idset>> ranks_option(const JsonAt& option, std::uint64_t tasks);
// EINVAL: not all of these are ranks of a job that has so many tasks. `place`: of the option.
Result<void> check_ranks(const std::string& place, const std::optional<value::Idset>& ranks, std::uint64_t tasks);

// The codes for failures, 1 to 255: a code, an idset of them, or an array.
Result<value::Idset> exit_codes_option(const JsonAt& option);

// How many failed tasks are too many.
struct FailureLimit {
  std::uint64_t tasks = 0;  // 0: any number is fine
  bool first_only = false;  // the first task to end decides: if it has succeeded, later failures do not count

  bool operator==(const FailureLimit&) const = default;
};

// A switch, a number of tasks, a share as "25%" of the `job_tasks` tasks of the job, rounded up and at least one,
// or "first".
Result<FailureLimit> failure_limit_option(const JsonAt& option, std::uint64_t job_tasks);

// A list of names: an array, or text with commas between them.
Result<std::vector<std::string>> list_option(const JsonAt& option);

inline constexpr double kDefaultKillTimeout = 5;  // seconds

// The option kill-timeout: how long processes that were asked to end have until SIGKILL.
Result<value::Duration> kill_timeout(const Options& options);

// The option fault-tolerance: a switch, or an object of how.
Result<bool> is_fault_tolerant(const Options& options);

}  // namespace nacre::job
