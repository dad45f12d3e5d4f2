// SPDX-License-Identifier: Apache-2.0
//
// Orders to the shells of a job that runs: who leaves, who comes, and what some of them start beside what they have
// started at its beginning.
#pragma once

#include "base/json.hpp"
#include "value/hostlist.hpp"
#include "value/idset.hpp"

namespace nacre::value {

// Shells that are taken out of a job as planned.

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

// Shells that join a job that runs.

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

// What some shells of a job are to start, beside what they have started at its beginning.
struct ExecOrder {
  enum class Kind : std::uint8_t {
    tasks,  // of the job
    tool,   // no task: the job neither waits for it nor has its exit code
  };

  // The ranks of tasks by shell. Of a tool they are those that it runs beside; empty: none in particular.
  std::map<std::uint32_t, Idset> shares;
  std::string command;  // bytes that only the two ends know
  // It is refused if one of the shells is lost. Else the ranks of that shell go to the others.
  bool strict = false;
  Kind kind = Kind::tasks;
};

struct ExecAnswer {
  std::uint64_t number = 0;  // of the order, from 1: the same on all shells, used once in a job. 0: it is refused
  Idset lost;                // the shells because of which it is refused
};

// An order as one of its shells receives it.
struct ExecShare {
  std::uint64_t number = 0;
  Idset ranks;
  std::string command;
  ExecOrder::Kind kind = ExecOrder::Kind::tasks;
};

}  // namespace nacre::value
