// SPDX-License-Identifier: Apache-2.0
//
// Shells that join a job that runs.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.hpp"
#include "value/hostlist.hpp"
#include "value/idset.hpp"

namespace nacre::value {

// As JSON, by which front ends give it:
//
//   hosts: HOSTLIST | count: N    one of these; a shell for each, and a host twice for two
//   wait: SECONDS                 by default the time that the launcher gives a shell to join
//   all: true or false (the default)
struct GrowOrder {
  static constexpr double kMostWait = 24.0 * 60 * 60;  // seconds
  static constexpr std::uint64_t kMostShells = 4096;   // of one order

  Hostlist hosts;
  std::uint64_t count = 0;     // on the host of the job, where all its shells are on one
  std::optional<double> wait;  // seconds until those that have not joined are given up
  bool all = false;            // if one does not join, those that have joined leave again

  // Unknown members are ignored.
  static Result<GrowOrder> parse(const JsonAt& at);
};

// How a grow has ended, for the shells that it was for.
struct Grown {
  Idset joined;
  Idset missing;  // they have not come, or are lost again

  bool operator==(const Grown&) const = default;
};

}  // namespace nacre::value
