// SPDX-License-Identifier: Apache-2.0
//
// `nacre exec --pty`: one command on a terminal of its node, joined to this one.
#pragma once

#include "control/client.hpp"

namespace nacre::front {

// `arguments`: of the request `exec`, without size. Returns the exit code.
Result<int> exec_on_terminal(control::Client client, Json arguments, bool quiet);

}  // namespace nacre::front
