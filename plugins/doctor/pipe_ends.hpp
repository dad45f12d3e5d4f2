// SPDX-License-Identifier: Apache-2.0
//
// Who has pipes open for writing: by one look at the descriptors of all processes, and only if a task waits to read
// from a pipe.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

namespace nacre::plugins {

// `links`: of pipes, as /proc/PID/fd has them. Processes whose descriptors this one may not see are left out.
[[nodiscard]] std::map<std::string, std::set<pid_t>> pipe_writers(const std::set<std::string>& links);

}  // namespace nacre::plugins
