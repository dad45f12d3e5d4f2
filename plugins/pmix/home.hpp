// SPDX-License-Identifier: Apache-2.0
//
// The home of who runs the job, for processes whose environment has none.
#pragma once

#include "flux.hpp"

namespace nacre::pmix {

// Sets HOME for the job's processes, unless it is set: without it Open MPI 5 does not begin. As login(1) has it:
// what the user database has, else "/". Returns 0, or -1 after a line in the log.
int give_home(flux_shell_t* shell);

}  // namespace nacre::pmix
