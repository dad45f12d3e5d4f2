// SPDX-License-Identifier: Apache-2.0
//
// Orders to the shells of a job that runs: who leaves, who comes, and what some of them start in addition to the
// job's tasks.
#pragma once

#include "base/json.hpp"
#include "value/hostlist.hpp"
#include "value/idset.hpp"

namespace nacre::value {

// Shells that are taken out of a job as planned.

// In JSON, as front ends and plugins give it:
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
  std::uint64_t count = 0;      // how many shells: those without tasks first, then the last ones
  int signum = 15;              // the first signal for their tasks; SIGTERM
  std::optional<double> grace;  // seconds until SIGKILL; none: kill-timeout
  bool refuse_tasks = false;    // shells that have tasks may not leave
  bool force = false;  // also if tasks are connected to PMI, so that the others would not survive their end

  enum class Unknown : std::uint8_t { ignore, refuse };
  static Result<ShrinkOrder> parse(const JsonAt& at, Unknown members);
  [[nodiscard]] Json json() const;
};

// How a shrink has ended, for the ordered shells.
struct Shrunk {
  Idset gone;         // shells that have ended their tasks, and have left
  Idset unconfirmed;  // shells about which nothing is known

  bool operator==(const Shrunk&) const = default;
};

// Shells that join a job that runs.

// In JSON, as front ends give it:
//
//   hosts: HOSTLIST | count: N    one of these; a shell for each, and a host twice for two
//   wait: SECONDS                 by default the time that the launcher gives a shell to join
//   all: true or false (the default)
struct GrowOrder {
  static constexpr double kMostWait = 24.0 * 60 * 60;  // seconds
  static constexpr std::uint64_t kMostShells = 4096;   // of one order

  Hostlist hosts;
  std::uint64_t count = 0;     // on the job's host, if all its shells are on one host
  std::optional<double> wait;  // seconds after which shells that have not joined are given up
  bool all = false;            // if one does not join, the joined ones leave again

  // Unknown members are ignored.
  static Result<GrowOrder> parse(const JsonAt& at);
};

// How a grow has ended, for the ordered shells.
struct Grown {
  Idset joined;
  Idset missing;  // shells that have not come, or are lost again

  bool operator==(const Grown&) const = default;
};

// What some shells of a job are to start, in addition to the job's tasks.
struct ExecOrder {
  enum class Kind : std::uint8_t {
    tasks,  // of the job
    tool,   // no task: the job neither waits for it nor takes its exit code
  };

  // The ranks of tasks by shell. For a tool these are the tasks that it runs beside; empty: none in particular.
  std::map<std::uint32_t, Idset> shares;
  std::string command;  // bytes that only the two ends know
  // The order is refused if one of the shells is lost. Otherwise the ranks of a lost shell go to the others.
  bool strict = false;
  Kind kind = Kind::tasks;
};

struct ExecAnswer {
  std::uint64_t number = 0;  // the order's number, from 1: the same on all shells, used once in a job. 0: the order
                             // is refused
  Idset lost;                // the lost shells because of which it is refused
};

// An order as one of its shells receives it.
struct ExecShare {
  std::uint64_t number = 0;
  Idset ranks;
  std::string command;
  ExecOrder::Kind kind = ExecOrder::Kind::tasks;
};

}  // namespace nacre::value
