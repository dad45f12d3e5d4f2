// SPDX-License-Identifier: Apache-2.0
//
// How the shells of a job come together: each dials its parent, starts its own children if nothing else does, and
// sends its address and the offer of its node; the leader also sends the job. Then every shell knows all of it.
#pragma once

#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/result.hpp"
#include "boot/boot.hpp"
#include "boot/identity.hpp"
#include "join/leader_given.hpp"
#include "join/shell_process.hpp"

namespace nacre::join {

struct Assembled {
  boot::Identity identity;
  std::vector<std::string> options;  // the leader's
  bool has_input = false;            // also the leader's
};

// Makes the process's group, launcher and launch stream. After an error the process's group may wait for give_up().
Result<Assembled> assemble(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log);

}  // namespace nacre::join
