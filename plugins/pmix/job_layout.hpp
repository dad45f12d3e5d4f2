// SPDX-License-Identifier: Apache-2.0
//
// How a job is laid out, as the shell's API has it: its shells, their hosts, and the tasks on each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flux.hpp"
#include "server.hpp"

namespace nacre::pmix {

struct JobShells {
  std::uint32_t own = 0;           // this shell
  std::vector<std::string> hosts;  // by shell, all different
};

struct JobLayout {
  JobShells shells;
  JobFacts tasks;  // but the directory
};

// For this start of all tasks. None: after one line in the log.
std::optional<JobLayout> read_layout(flux_shell_t* shell, std::uint64_t start);

}  // namespace nacre::pmix
