// SPDX-License-Identifier: Apache-2.0
//
// The directory in which a job runs.
#pragma once

#include "base/log.hpp"
#include "base/result.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"

namespace nacre::core {

// Changes to the jobspec's directory; with the option cwd-fallback, and a warning, to /tmp if that fails.
Result<void> enter_working_directory(const job::Jobspec& spec, const job::Options& options, Log& log);

}  // namespace nacre::core
