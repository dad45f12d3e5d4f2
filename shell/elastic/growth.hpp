// SPDX-License-Identifier: Apache-2.0
//
// Shells that have joined a job that runs: each shell of the job learns of them by the leader's announcement, in
// the order of the log, and those that join later from their launch record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "value/idset.hpp"

namespace nacre::elastic {

// Of the leader: these have come (Growth, as JSON). From here on all shells count them.
inline constexpr const char* kGrownTopic = "shell.grown";
// Of the leader, for those of the last kGrownTopic: what the job has come to by then.
inline constexpr const char* kStateTopic = "shell.grown-state";
// Of a newcomer, once it is a member: {"shell", "offer"}; and whether it is ready, {"shell"}, or has failed, with
// "error".
inline constexpr const char* kOfferTopic = "shell.grown-offer";
inline constexpr const char* kReadyTopic = "shell.grown-ready";

// By rank, without gaps. Of one that has not come the host is known, and no cores.
struct Growth {
  struct Shell {
    std::uint32_t rank = 0;
    std::string hostname;
    value::Idset cores, gpus;
    bool has_come = true;
  };
  std::vector<Shell> shells;

  // [[RANK, HOST, CORES, GPUS, HAS_COME], ...]
  [[nodiscard]] Json json() const;
  // Errors name the place.
  static Result<Growth> parse(const JsonAt& at);
  [[nodiscard]] bool has(std::uint32_t rank) const;
};

}  // namespace nacre::elastic
