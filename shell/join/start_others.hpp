// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/log.hpp"
#include "group/overlay_driver.hpp"
#include "join/shell_process.hpp"
#include "launch/record.hpp"

namespace nacre::join {

// Makes the launcher by which this shell, `member`, starts others in the way of its own launch record. Both
// `member` and `log` have to outlive it. `on_killed`: as in Launcher; may be unset.
void make_launcher(ShellProcess& process, const launch::LaunchRecord& record, group::OverlayDriver& member,
                   Log& log, std::function<void(group::Rank, int signum)> on_killed);

}  // namespace nacre::join
