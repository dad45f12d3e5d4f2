// SPDX-License-Identifier: Apache-2.0
//
// How a job's leader is reached: through its socket if it is on this host; else through a program on its host that
// copies the bytes (`nacre control --bridge ID`). The first of these ways that can be used is taken:
//
//   unix   the leader is on this host
//   srun   a step of Slurm
//   flux   a job of Flux
//   ssh    any other
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/client.hpp"
#include "record/list.hpp"

namespace nacre::front {

enum class Via { unix_socket, srun, flux, ssh };
[[nodiscard]] std::string_view via_name(Via via);
Result<Via> parse_via(const std::string& name);

struct Reach {
  std::optional<Via> only;  // none: the first that can be used
  bool verbose = false;     // print to standard error which way is taken
};

// The ways that can be used for this job, in order. `here`: where this process is.
[[nodiscard]] std::vector<Via> ways_to(const record::JobEntry& entry, const record::ProcessPlace& here);
// The command line that starts the bridge.
Result<std::vector<std::string>> bridge_command(Via via, const record::JobEntry& entry,
                                                const std::string& directory);

// `directory`: where the entry was found. Errors name the job, and its leader's process and host. ESTALE: the
// leader has gone.
Result<control::Client> reach(const record::JobEntry& entry, const std::string& directory, const Reach& how);

}  // namespace nacre::front
