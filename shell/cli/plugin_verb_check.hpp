// SPDX-License-Identifier: Apache-2.0
//
// nacre plugin check: loads one plugin in a shell of its own, a child process with a time limit and in a directory
// of its own. If the plugin crashes only the child does.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/plugin_verb_findings.hpp"

namespace nacre::cli {

inline constexpr double kCheckTimeLimit = 10;       // seconds, for loading and again for the job
inline constexpr double kMaxCheckTimeLimit = 3600;  // seconds

struct CheckOptions {
  double time_limit = kCheckTimeLimit;
  std::vector<std::string> options;  // OPT[=VAL], of the job
};

struct CheckResult {
  std::vector<Finding> findings;
  std::string summary;  // "NAME: TOPIC TOPIC" for the plugins in the file, as far as it could be loaded
};

// An error: the check could not be made.
Result<CheckResult> check_plugin(const std::string& file, const CheckOptions& options);

}  // namespace nacre::cli
