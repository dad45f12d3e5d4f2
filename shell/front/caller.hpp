// SPDX-License-Identifier: Apache-2.0
//
// What a job gets from who starts it: the working directory and the environment of this process.
#pragma once

#include <string>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "front/environment_rules.hpp"

namespace nacre::front {

// The working directory: $PWD where that names it, as a shell shows it, else as getcwd(3) does.
Result<std::string> own_directory();

// The environment of this process.
[[nodiscard]] Variables own_environment();

// Says on standard error which variables are left out, as a jobspec cannot have them.
void leave_out_no_utf8(Variables& variables);

// The text of a valid jobspec with attributes.system.cwd and attributes.system.environment where it has none.
Result<std::string> with_callers(Json jobspec);

}  // namespace nacre::front
