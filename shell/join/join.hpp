// SPDX-License-Identifier: Apache-2.0
//
// How the shells of a job come together: each dials its parent, starts its own children where nothing else does, and says where
// it is and what its node offers; the leader says what the job is. Then every shell knows all of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/result.hpp"
#include "boot/boot.hpp"
#include "boot/identity.hpp"
#include "join/shell_process.hpp"

namespace nacre::join {

// What only the leader has to be given. Texts with the names of their files, for errors.
struct LeaderGiven {
  struct Text {
    std::string name;
    std::string text;
  };
  std::optional<Text> jobspec;
  std::optional<Text> resources;  // none: R is made of what the shells offer
  std::vector<std::string> options;
  bool has_input = false;  // standard input is more than /dev/null
};

struct Assembled {
  boot::Identity identity;
  std::vector<std::string> options;  // the leader's
  bool has_input = false;            // likewise
};

// Makes the process's group, launcher and launch stream. After an error the process's group may wait for give_up().
Result<Assembled> assemble(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log);

}  // namespace nacre::join
