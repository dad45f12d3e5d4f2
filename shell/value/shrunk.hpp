// SPDX-License-Identifier: Apache-2.0
//
// Shells that are taken out of a job as planned.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.hpp"
#include "value/hostlist.hpp"
#include "value/idset.hpp"

namespace nacre::value {

// As JSON, by which front ends and plugins give it:
//
//   shells: IDSET | hosts: HOSTLIST | count: N   one of these
//   signal: NUMBER or NAME                       TERM by default
//   grace: SECONDS or DURATION                   by default the job's kill-timeout
//   tasks: "end" (the default) or "refuse"
//   force: true or false (the default)
struct ShrinkOrder {
  static constexpr double kMostGrace = 24.0 * 60 * 60;  // seconds

  Idset shells;
  Hostlist hosts;
  std::uint64_t count = 0;      // those without tasks first, then the last ones
  int signum = 15;              // that their tasks get first; SIGTERM
  std::optional<double> grace;  // seconds until SIGKILL; none: kill-timeout
  bool refuse_tasks = false;    // shells that have tasks are not to leave
  bool force = false;  // also where tasks are connected to PMI, and the others would not get over their end

  enum class Unknown : std::uint8_t { ignore, refuse };
  static Result<ShrinkOrder> parse(const JsonAt& at, Unknown members);
  [[nodiscard]] Json json() const;
};

// How a shrink has ended, for the shells that it was for.
struct Shrunk {
  Idset gone;         // they have ended their tasks, and have left
  Idset unconfirmed;  // what has become of them is not known

  bool operator==(const Shrunk&) const = default;
};

}  // namespace nacre::value
