// SPDX-License-Identifier: Apache-2.0
//
// What a leader keeps to start more shells of its job later, on hosts that it reaches as it has reached the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "group/directory.hpp"
#include "join/leader_given.hpp"
#include "launch/record.hpp"
#include "transport/secret.hpp"

namespace nacre::join {

struct LaterShells {
  launch::LaunchRecord record;  // the leader's own
  transport::Secret secret;
  std::vector<std::string> addresses;  // of the shells of the job's start, by rank
  LeaderGiven given;                   // without R, which all have made alike
  // A shell that was to join later has not been started, or its agent has failed. Set by who starts them.
  std::function<void(group::Rank, const std::string& why)> on_failed = nullptr;

  // What the launcher gives such a shell. `resources`: R, as at the job's start; `is_made`: of what the nodes
  // offer; `growth`: elastic::Growth, of those that have joined before.
  [[nodiscard]] std::string lines_of(group::Rank rank, std::string resources, bool is_made,
                                     std::string growth) const;
};

}  // namespace nacre::join
