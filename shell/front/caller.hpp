// SPDX-License-Identifier: Apache-2.0
//
// What a job takes from the process that starts it: the working directory and the environment.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "front/environment_rules.hpp"

namespace nacre::front {

// The working directory: $PWD if that names it, as a shell shows it; else what getcwd(3) returns.
Result<std::string> own_directory();

// The environment of this process.
[[nodiscard]] Variables own_environment();

// The soft limits of this process, as options of the shell, by their paths: for tasks on other hosts, as those
// here have them anyway. Without those that each kernel derives from its host's memory (nproc, sigpending,
// memlock), and those that need rights.
[[nodiscard]] std::vector<std::pair<std::string, Json>> own_limits();

// Prints to standard error which variables are left out because a jobspec cannot hold them.
void leave_out_no_utf8(Variables& variables);

// Takes the text of a valid jobspec, and adds attributes.system.cwd and attributes.system.environment if they are
// missing.
Result<std::string> with_callers(Json jobspec);

}  // namespace nacre::front
