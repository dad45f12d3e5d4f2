// SPDX-License-Identifier: Apache-2.0
//
// Where the core dump of a process is: core(5).
#pragma once

#include <sys/types.h>

#include <string>

#include "base/json_fwd.hpp"

namespace nacre::plugins {

struct Dumped {
  pid_t pid = 0;
  int signum = 0;
  double started = 0;     // seconds since the Epoch: files before that are of other processes
  std::string directory;  // in which it ran when it started
};

// {"dumped": true}, and {"file": path} if it is there, or {"handler": program} where the kernel gives core dumps to
// one; {"pattern"} with neither: what the kernel's pattern is, as there is no such file. `root` is put before the
// names of the kernel's files.
[[nodiscard]] Json core_file(const Dumped& process, const std::string& root = "");

// The glob(7) of the file's name by core_pattern: what is not known of the process is `*`.
[[nodiscard]] std::string core_glob(std::string_view pattern, bool uses_pid, const Dumped& process);

}  // namespace nacre::plugins
