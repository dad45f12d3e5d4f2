// SPDX-License-Identifier: Apache-2.0
//
// How a shell joins a job that runs (nacre grow): it dials the leader, which adds it to the job, and sends it what
// the job has come to by then. No other shell waits for it.
#pragma once

#include "base/json.hpp"
#include "base/log.hpp"
#include "base/result.hpp"
#include "elastic/growth.hpp"
#include "join/join.hpp"

namespace nacre::join {

// As assemble(). After an error the process has no group: the job goes on.
Result<Assembled> join_running(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log);

}  // namespace nacre::join
