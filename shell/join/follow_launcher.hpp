// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.hpp"
#include "boot/boot.hpp"
#include "join/shell_process.hpp"

namespace nacre::join {

// Until it has joined, a shell does not outlive the process that started it; the leader never does. Makes the
// process's launch stream.
Result<void> follow_launcher(ShellProcess& process, boot::Boot& boot, group::Rank rank);

}  // namespace nacre::join
