// SPDX-License-Identifier: Apache-2.0
//
// A job of one shell that nacre has started can get others while it runs (nacre grow). Nothing is prepared for that
// at its start: secret, sockets, links and the launcher are made when it grows for the first time.
#pragma once

#include "base/log.hpp"
#include "boot/boot.hpp"
#include "join/shell_process.hpp"

namespace nacre::join {

// Makes the group of a shell that is alone, and, where others can join it, `process.later`, with what is left to
// prepare.
void make_lone_group(ShellProcess& process, boot::Boot boot, Log& log);

}  // namespace nacre::join
