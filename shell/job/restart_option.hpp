// SPDX-License-Identifier: Apache-2.0
//
// Whether tasks that have ended are started again, which, how often and when: the option `restart`.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "job/options.hpp"
#include "value/duration.hpp"
#include "value/idset.hpp"

namespace nacre::job {

struct RestartOption {
  enum class When : std::uint8_t { never, on_request, on_failure, always };
  enum class Scope : std::uint8_t {
    task,  // the task alone, unless PMI does not allow that
    node,  // all tasks of its shell, likewise
    job,   // all tasks of the job
  };
  // Tasks of a lost shell start on a spare, with on-lost=replace; those that have ended, ...
  enum class Where : std::uint8_t {
    same,   // where they were
    spare,  // on a spare, if one can take them
    any,    // where they were; those of a lost shell on another one too, if no spare can take them
  };
  static constexpr std::uint64_t kMost = 1'000'000;

  When when = When::never;
  std::uint64_t max = 3;                  // of the whole job
  std::optional<std::uint64_t> per_task;  // of each task; none: no limit but `max`
  value::Duration first = value::Duration::of_seconds(1);
  value::Duration longest = value::Duration::of_seconds(60);  // the wait doubles up to it
  value::Idset codes;                                         // that count as failures here; empty: all
  Scope scope = Scope::task;
  Where where = Where::same;

  // restart=never|on-request|on-failure|always
  //     [,max=N][,per-task=N][,backoff=FIRST[:LONGEST]][,codes=SET][,scope=task|node|job][,where=same|spare|any]
  static Result<RestartOption> read(const Options& options);

  [[nodiscard]] bool is_on() const { return when != When::never; }
  bool operator==(const RestartOption&) const = default;
};

}  // namespace nacre::job
