// SPDX-License-Identifier: Apache-2.0
//
// Who has pipes open: by one look at the descriptors of all processes, and only if a task waits to read from a
// pipe, or to write to one.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

namespace nacre::plugins {

struct PipeEnds {
  std::set<pid_t> writers, readers;
};

// `links`: of pipes, as /proc/PID/fd has them. Processes whose descriptors this one may not see are left out.
[[nodiscard]] std::map<std::string, PipeEnds> pipe_ends(const std::set<std::string>& links);

}  // namespace nacre::plugins
